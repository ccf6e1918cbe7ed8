package read

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Copy is what was read of Berth's services before: a read with it costs what has changed since. The zero value is a
// copy of nothing, with which everything is read. At most one read at a time has it.
type Copy struct {
	providers providerCopy
	compute   computeCopy
}

// Reports returns the reports of the agents of all hosts, by host. They must not be changed.
func (c *Copy) Reports() []host.Report {
	return slices.SortedFunc(maps.Values(c.compute.reports), func(a, b host.Report) int {
		return cmp.Compare(a.Host, b.Host)
	})
}

// errSynced ends a stream of events of which everything was read.
var errSynced = errors.New("all events were read")

// stateTime is the time limit for reading the events of a service.
const stateTime = 5 * time.Minute

// eventsSince calls each with what a service has of a query, and with what has happened since the cursor. It returns
// the next cursor; fault.NotFound if the service has no events.
func eventsSince(ctx context.Context, of *rest.Client, query url.Values, cursor string,
	each func(eventstream.Event) error) (string, error) {
	client, web := *of, http.Client{}
	if client.HTTP != nil {
		web = *client.HTTP
	}
	web.Timeout = 0 // the state of a large cloud takes longer than one request
	client.HTTP = &web
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	query.Set("follow", "false")
	next := ""
	_, err := eventstream.Read(ctx, &client, query, cursor, func(e eventstream.Event) error {
		if e.Action == eventstream.Synced {
			next = e.Cursor
			return errSynced
		}
		return each(e)
	})
	switch {
	case err == nil:
		return "", fault.New(fault.Unavailable, "the stream of events ended before all of it was read")
	case !errors.Is(err, errSynced):
		return "", err
	}
	return next, nil
}

// copied reads the providers from the events of Berth's Placement: the whole state at first, and then what has changed.
// It returns fault.NotFound for another Placement. The providers have no generations.
func (r *reader) copied(ctx context.Context) error {
	c := &r.Copy.providers
	if c.cursor == "" {
		*c = providerCopy{at: map[provider.ID]*fleet.Provider{}}
	}
	next, err := eventsSince(ctx, r.Placement.REST, url.Values{"state": {"true"}}, c.cursor, c.add)
	if c.cursor = next; err != nil { // what was read is not whole
		return err
	}
	c.shown = true
	for _, p := range c.at {
		r.out.Providers = append(r.out.Providers, *p)
	}
	slices.SortFunc(r.out.Providers, func(a, b fleet.Provider) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return nil
}

// providerCopy is the providers of Placement at a cursor.
type providerCopy struct {
	at     map[provider.ID]*fleet.Provider
	cursor string // empty: nothing is known
	shown  bool   // snapshots have these providers and their maps: a change makes new ones
}

// change returns a provider that may be changed. One that is not known is added: a later object describes it.
func (c *providerCopy) change(id provider.ID) *fleet.Provider {
	p := c.at[id]
	switch {
	case p == nil:
		p = &fleet.Provider{Provider: provider.Provider{ID: id, Inventories: map[resource.Class]resource.Inventory{}}}
		c.at[id] = p
	case c.shown:
		changed := *p
		changed.Inventories, changed.Held = maps.Clone(p.Inventories), maps.Clone(p.Held)
		p = &changed
		c.at[id] = p
	}
	return p
}

// providerObject is a provider, an inventory or an allocation.
type providerObject struct {
	ID         provider.ID            `json:"uuid"`
	Name       string                 `json:"name"`
	Parent     provider.ID            `json:"parent_provider_uuid"`
	Root       provider.ID            `json:"root_provider_uuid"`
	Traits     []resource.Trait       `json:"traits"`
	Aggregates []resource.AggregateID `json:"aggregates"`

	Provider  provider.ID         `json:"provider"`
	Class     resource.Class      `json:"resource_class"`
	Total     int                 `json:"total"`
	Reserved  int                 `json:"reserved"`
	MinUnit   int                 `json:"min_unit"`
	MaxUnit   int                 `json:"max_unit"`
	StepSize  int                 `json:"step_size"`
	Ratio     float64             `json:"allocation_ratio"`
	Consumer  resource.ConsumerID `json:"consumer"`
	Resources resource.Amounts    `json:"resources"`
}

// add applies an event. Objects may come in any order.
func (c *providerCopy) add(e eventstream.Event) error {
	if e.Action == eventstream.Reset {
		*c = providerCopy{at: map[provider.ID]*fleet.Provider{}}
		return nil
	}
	var o providerObject
	if err := json.Unmarshal(e.Object, &o); err != nil {
		return fault.New(fault.Internal, "an event does not match its API: %w", err)
	}
	if e.Action == eventstream.Deleted {
		c.remove(e.Kind, o)
		return nil
	}
	switch e.Kind {
	case "provider":
		p := c.change(o.ID)
		slices.Sort(o.Traits)
		p.Name, p.Parent, p.Root, p.Traits, p.Aggregates = o.Name, o.Parent, o.Root, o.Traits, o.Aggregates
	case "inventory":
		c.change(o.Provider).Inventories[o.Class] = resource.Inventory{Total: o.Total, Reserved: o.Reserved,
			MinUnit: o.MinUnit, MaxUnit: o.MaxUnit, StepSize: o.StepSize, AllocationRatio: o.Ratio}
	case "allocation":
		p := c.change(o.Provider)
		if p.Held == nil {
			p.Held = map[resource.ConsumerID]resource.Amounts{}
		}
		p.Held[o.Consumer] = o.Resources
	}
	return nil
}

// remove removes an object. The inventories and allocations of a provider that is removed may come later.
func (c *providerCopy) remove(kind string, o providerObject) {
	switch {
	case kind == "provider":
		delete(c.at, o.ID)
	case c.at[o.Provider] == nil:
	case kind == "inventory":
		delete(c.change(o.Provider).Inventories, o.Class)
	case kind == "allocation":
		delete(c.change(o.Provider).Held, o.Consumer)
	}
}

// The limits up to which Berth's compute is read object by object.
const (
	maxChanged = 200              // changed servers, and changed hosts
	maxCopied  = 10 * time.Minute // since everything was read: what events do not show is as old as that
)

// computeCopy is what Berth's compute had at a cursor.
type computeCopy struct {
	cursor      string // of its events; empty: nothing is known
	whole       time.Time
	reports     map[string]host.Report
	servers     map[string]fleet.Server
	migrations  []fleet.Migration
	hypervisors []fleet.Hypervisor
	services    []fleet.Service
}

// copiedCompute reads servers, migrations, hypervisors, services and reports of Berth's compute. With a copy, only what
// its events name is read; everything if they cannot be read or name much.
func (r *reader) copiedCompute(ctx context.Context) {
	c := &r.Copy.compute
	next, now, err := r.changesOfCompute(ctx, c.cursor)
	if err != nil || now.reset || c.cursor == "" || time.Since(c.whole) > maxCopied || len(now.servers) > maxChanged ||
		len(now.hosts) > maxChanged || r.changed(ctx, now) != nil {
		if *c = (computeCopy{}); r.wholeCompute(ctx) && err == nil {
			c.cursor, c.whole = next, time.Now()
		}
		return
	}
	c.cursor = next
	r.out.Servers = slices.SortedFunc(maps.Values(c.servers), func(a, b fleet.Server) int {
		return strings.Compare(a.ID, b.ID)
	})
	r.out.Migrations, r.out.Hypervisors, r.out.Services = c.migrations, c.hypervisors, c.services
}

// wholeCompute reads everything, and keeps it. It reports whether it could.
func (r *reader) wholeCompute(ctx context.Context) bool {
	c, all := &r.Copy.compute, url.Values{}
	before := len(r.out.Gaps)
	r.together(ctx, map[fleet.Part]func(context.Context) error{fleet.Hypervisors: r.hypervisors,
		fleet.Services:   r.services,
		fleet.Servers:    func(ctx context.Context) error { return r.servers(ctx, all) },
		fleet.Migrations: func(ctx context.Context) error { return r.migrations(ctx, all) },
		fleet.Reported: func(ctx context.Context) error {
			list, err := r.Hosts.Hosts(ctx)
			c.reports = map[string]host.Report{}
			for _, report := range list {
				c.reports[report.Host] = report
			}
			return err
		}})
	c.servers = map[string]fleet.Server{}
	for _, s := range r.out.Servers {
		c.servers[s.ID] = s
	}
	c.migrations, c.hypervisors, c.services = r.out.Migrations, r.out.Hypervisors, r.out.Services
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.out.Gaps) == before
}

// computeChanges are the ids of servers and the names of hosts that events name.
type computeChanges struct {
	servers, hosts map[string]bool
	reset          bool // there are changes that are not known
}

// changesOfCompute reads what has changed since a cursor; without one only the next cursor. It returns an error if the
// user may not watch everything: then events lack changes.
func (r *reader) changesOfCompute(ctx context.Context, cursor string) (next string, now computeChanges, err error) {
	everything := url.Values{"host": {"-"}} // only those who may watch everything may select by host
	if _, err := r.Compute.REST.Do(ctx, http.MethodHead, "/berth/v1/events?"+everything.Encode(), nil, nil); err != nil {
		return "", now, err
	}
	now = computeChanges{servers: map[string]bool{}, hosts: map[string]bool{}}
	query := url.Values{"kind": {"server,host,device"}}
	next, err = eventsSince(ctx, r.Compute.REST, query, cursor, func(e eventstream.Event) error {
		var object struct {
			ID   string `json:"id"`
			Host string `json:"host"`
		}
		switch {
		case e.Action == eventstream.Reset:
			now.reset = true
		case now.reset: // the whole state, which is read in another way
		case json.Unmarshal(e.Object, &object) != nil:
			return fault.New(fault.Internal, "an event does not match its API")
		case e.Kind == "server":
			now.servers[object.ID] = true
		default:
			now.hosts[object.Host] = true
		}
		return nil
	})
	return next, now, err
}

// changed reads changed servers with their moves, and changed hosts, into the copy.
func (r *reader) changed(ctx context.Context, now computeChanges) error {
	c := &r.Copy.compute
	ids, names := slices.Sorted(maps.Keys(now.servers)), slices.Sorted(maps.Keys(now.hosts))
	parts := make([]reader, len(ids)+len(names)) // one for each: each has an own snapshot
	reports := make([]*host.Report, len(names))
	known := c.reports
	_, err := r.each(ctx, len(parts), func(i int) error {
		one := &parts[i]
		one.Services, one.Options, one.out = r.Services, r.Options, &fleet.Snapshot{}
		if i < len(ids) {
			if err := one.migrations(ctx, url.Values{"instance_uuid": {ids[i]}}); err != nil {
				return err
			}
			return one.serversByID(ctx, ids[i:i+1])
		}
		i -= len(ids)
		report, err := r.Hosts.HostReport(ctx, names[i])
		if err == nil {
			reports[i] = &report
		} else if !fault.Is(err, fault.NotFound) {
			return err
		}
		if _, is := known[names[i]]; !is || reports[i] == nil {
			one.Host = names[i]
			if err := one.hypervisorOf(ctx); err != nil {
				return err
			}
		}
		return one.serviceOf(ctx, names[i])
	})
	if err != nil {
		return err
	}
	// copies: snapshots have the lists
	c.migrations = slices.DeleteFunc(slices.Clone(c.migrations), func(m fleet.Migration) bool {
		return now.servers[m.Server]
	})
	c.services = slices.DeleteFunc(slices.Clone(c.services), func(s fleet.Service) bool { return now.hosts[s.Host] })
	c.hypervisors = slices.Clone(c.hypervisors)
	for i, id := range ids {
		delete(c.servers, id)
		for _, s := range parts[i].out.Servers {
			c.servers[id] = s
		}
		c.migrations = append(c.migrations, parts[i].out.Migrations...)
	}
	for i, name := range names {
		part := parts[len(ids)+i].out
		c.services = append(c.services, part.Services...)
		_, was := c.reports[name]
		if delete(c.reports, name); reports[i] != nil {
			c.reports[name] = *reports[i]
		}
		if !was || reports[i] == nil {
			c.hypervisors = slices.DeleteFunc(c.hypervisors, func(h fleet.Hypervisor) bool { return h.Name == name })
			c.hypervisors = append(c.hypervisors, part.Hypervisors...)
		}
	}
	return nil
}
