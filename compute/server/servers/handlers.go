// Package servers holds the servers of the Compute API, and what is a part of a server: its actions, ports, metadata
// and tags, migrations and history. Each resource has its file, with its paths, its handlers and its views.
package servers

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// Store is what the handlers need of the database; *store.Store implements it and documents its faults.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error)
	ChangeWithinQuota(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (
		lifecycle.Server, error)
	ListServers(ctx context.Context, f store.ServerFilter) ([]lifecycle.Server, error)
	ServerRefs(ctx context.Context, f store.ServerFilter) ([]store.ServerRef, error)
	Migrations(ctx context.Context, f store.MigrationFilter) ([]store.Migration, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Dead(ctx context.Context) ([]string, error)
	ServerGroup(ctx context.Context, id string) (store.ServerGroup, error)
}

// Conductor executes the requests of users; *conductor.Conductor implements it and documents its faults.
type Conductor interface {
	Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error)
	Delete(ctx context.Context, id string, by lifecycle.Caller) error
	ForceDelete(ctx context.Context, id string, by lifecycle.Caller) error
	Act(ctx context.Context, id string, action lifecycle.ActionRequested) (lifecycle.Server, error)
	ChangePort(ctx context.Context, id string, request lifecycle.PortChangeRequest) error
}

// Images is what the handlers need of an image service; *image.Client implements it. Methods return fault.NotFound for
// an image that the caller may not see, fault.Forbidden if the service rejects the token, and fault.Unavailable if
// the service does not answer.
type Images interface {
	Image(ctx context.Context, who identity.Identity, token, id string) (image.Image, error)
	Images(ctx context.Context, who identity.Identity, token string) ([]image.Image, error)
	Delete(ctx context.Context, who identity.Identity, token, id string) error
}

// Networks is what the handlers need of a network service, with the rights of an administrator; *network.Client
// implements it. Methods return fault.NotFound for an object that does not exist.
type Networks interface {
	Networks(ctx context.Context, query url.Values) ([]network.Network, error)
	Ports(ctx context.Context, query url.Values) ([]network.Port, error)
	Port(ctx context.Context, id string) (network.Port, error)
	Policies(ctx context.Context, query url.Values) ([]network.Policy, error)
	UpdatePort(ctx context.Context, id string, attributes map[string]any) (network.Port, error)
	Extensions(ctx context.Context) ([]string, error)
	SecurityGroups(ctx context.Context, query url.Values) ([]network.SecurityGroup, error)
	SharedWith(ctx context.Context, kind, project string) (ids []string, err error)
	GroupChanges
}

// GroupChanges are the changes of security groups in a network service; *network.Client implements it.
type GroupChanges interface {
	CreateSecurityGroup(ctx context.Context, attributes map[string]any) (network.SecurityGroup, error)
	UpdateSecurityGroup(ctx context.Context, id string, attributes map[string]any) (network.SecurityGroup, error)
	DeleteSecurityGroup(ctx context.Context, id string) error
	CreateSecurityGroupRule(ctx context.Context, attributes map[string]any) (network.SecurityGroupRule, error)
	DeleteSecurityGroupRule(ctx context.Context, id string) error
}

// Providers is what the handlers need of Placement; *placement.Client implements it. Providers returns fault.Invalid
// for a query with a trait that does not exist.
type Providers interface {
	Providers(ctx context.Context, query url.Values) ([]provider.Provider, error)
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Catalog    *catalog.Handlers
	Consoles   *consoles.Handlers
	Store      Store
	Conductor  Conductor
	Images     Images    // nil: imageRef is stored without a check
	Networks   Networks  // nil: no server has ports
	Providers  Providers // of Placement; nil: a rebuild must not require more
	ResizeHere bool      // [DEFAULT] allow_resize_to_same_host

	ScheduleZone string // [DEFAULT] default_schedule_zone: of servers whose request names none; empty: any
	// [api] enable_instance_password is false: answers have no adminPass
	HidePasswords bool
	// [compute] ports_need_microversion is false: ports with a resource request work at every version
	PortsAtAnyVersion bool
	Log               *slog.Logger
	Now               func() time.Time
	NewID             func() string

	support groupSupport
}

// details are the handlers that change a server without an action on its guest: its metadata and tags.
type details struct {
	Store   Store
	Catalog *catalog.Handlers
	Now     func() time.Time
}

// changeDetails reads the details of a server, passes them to change, and stores the result, in one transaction. change
// may be called more than once; if it returns an error nothing is stored, and the error is returned. It also gets the
// server, which it must not change.
func (s details) changeDetails(ctx context.Context, id string,
	change func(lifecycle.Server, *lifecycle.Details) error) (lifecycle.Server, error) {
	var refused error
	found, err := s.Store.Change(ctx, id, func(found lifecycle.Server) lifecycle.Server {
		if !found.Ended.IsZero() { // deleted since it was read
			refused = fault.New(fault.NotFound, "Instance %s could not be found.", id)
			return found
		}
		d := found.Details()
		if refused = change(found, &d); refused != nil {
			return found
		}
		return found.WithDetails(d, s.Now())
	})
	if err == nil {
		err = refused
	}
	return found, err
}
