package request

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// Store is what the lookups read of the database; *store.Store implements it and documents its faults.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Hosts(ctx context.Context) ([]schedule.Host, error)
	Dead(ctx context.Context) ([]string, error)
	HostAccount(ctx context.Context, host string) (store.HostAccount, error)
	HostAggregates(ctx context.Context) (map[string][]schedule.Aggregate, error)
}

// Agents is what the lookups need to know of the agents of hosts.
type Agents interface {
	IsSilent(host string) bool
	StartFailure(host string) presence.StartFailure
}

// Lookups are what the handlers of several resources look up.
type Lookups struct {
	DefaultZone string // [DEFAULT] default_availability_zone

	store    Store
	agents   Agents
	strategy string
}

// NewLookups returns the lookups of a server whose auth_strategy is strategy.
func NewLookups(store Store, agents Agents, strategy string) *Lookups {
	return &Lookups{store: store, agents: agents, strategy: strategy, DefaultZone: "nova"}
}

// Zones returns the aggregates of the hosts, which have their availability zones.
func (l *Lookups) Zones(ctx context.Context) (schedule.Aggregates, error) {
	of, err := l.store.HostAggregates(ctx)
	return schedule.Aggregates{OfHost: of, DefaultZone: l.DefaultZone}, err
}

// OfServer returns a method about the server of the path, which must not be deleted. A server that the caller may not
// see is answered like one that does not exist. rule is checked for the owner of the server.
func (l *Lookups) OfServer(rule string, handle func(*Call, lifecycle.Server) error) Method {
	return l.ofServer(rule, func(*Call) bool { return false }, handle)
}

// OfAnyServer is OfServer for a method that also answers about a deleted server, from a microversion on.
func (l *Lookups) OfAnyServer(rule string, since compute.Version, handle func(*Call, lifecycle.Server) error) Method {
	return l.ofServer(rule, func(c *Call) bool { return c.Has(since) }, handle)
}

func (l *Lookups) ofServer(rule string, deleted func(*Call) bool, handle func(*Call, lifecycle.Server) error) Method {
	return Method{Handle: func(c *Call) error {
		found, err := l.visibleServer(c, deleted(c))
		if err != nil {
			return err
		}
		c.server = &found
		if err := c.Authorize(rule, OwnerOf(found)); err != nil {
			return err
		}
		return handle(c, found)
	}}
}

// visibleServer reads the server of the path. It returns fault.NotFound if the caller may not see it, or if it is
// deleted and deleted is false.
func (l *Lookups) visibleServer(c *Call, deleted bool) (lifecycle.Server, error) {
	id := c.R.PathValue("id")
	found, err := l.store.Read(c.R.Context(), id)
	hidden := err == nil && (found.Project != c.Who.Project && !c.Who.IsAdmin() || !found.Ended.IsZero() && !deleted)
	if hidden || fault.Is(err, fault.NotFound) {
		return lifecycle.Server{}, fault.New(fault.NotFound, "Instance %s could not be found.", id)
	}
	return found, err
}

// OwnerOf returns the attributes of a server for the policy.
func OwnerOf(s lifecycle.Server) map[string]any {
	return map[string]any{"project_id": s.Project, "user_id": s.User}
}

// RefusedOfServer returns a method that refuses every request about a server with one reason.
func (l *Lookups) RefusedOfServer(rule, reason string) Method {
	return l.OfServer(rule, func(*Call, lifecycle.Server) error { return NotImplemented("%s", reason) })
}

// EmptyOfServer returns a method that responds with an empty list of a server under a key.
func (l *Lookups) EmptyOfServer(rule, key string) Method {
	return l.OfServer(rule, func(c *Call, _ lifecycle.Server) error {
		return c.WriteJSON(http.StatusOK, map[string]any{key: []any{}})
	})
}

// UnknownHost adds similar host names to a fault of kind NotFound. It returns other errors as they are.
func (l *Lookups) UnknownHost(ctx context.Context, name string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	known, err := l.HostNames(ctx)
	if err != nil {
		return err
	}
	return provider.UnknownHost(name, known)
}

// HostNames lists the hosts whose agents have reported, by name.
func (l *Lookups) HostNames(ctx context.Context) ([]string, error) {
	hosts, err := l.store.Hosts(ctx)
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names, err
}

// HostsAndDead lists the hosts whose agents have reported, and the names of the hosts that an operator has declared
// dead.
func (l *Lookups) HostsAndDead(ctx context.Context) (hosts []schedule.Host, dead []string, err error) {
	if hosts, err = l.store.Hosts(ctx); err != nil {
		return nil, nil, err
	}
	dead, err = l.store.Dead(ctx)
	return hosts, dead, err
}

// Works reports whether a host is up: its agent reports, and its hypervisor can build guests.
func (l *Lookups) Works(h schedule.Host) bool {
	return h.Down == "" && !l.agents.IsSilent(h.Name) && l.agents.StartFailure(h.Name).Why == ""
}
