// Package actions has the actions of servers, and what remains of them: migrations, requests about live migrations, and
// the history of actions.
package actions

import (
	"context"
	"net/url"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/provider"
)

// Store is what the handlers need of the database; *store.Store implements it and documents its faults.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error)
	Migrations(ctx context.Context, f store.MigrationFilter) ([]store.Migration, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
}

// Conductor executes actions; *conductor.Conductor implements it and documents its faults.
type Conductor interface {
	ForceDelete(ctx context.Context, id string, by lifecycle.Caller) error
	Act(ctx context.Context, id string, action lifecycle.ActionRequested) (lifecycle.Server, error)
}

// Providers is what the handlers need of Placement; *placement.Client implements it. Providers returns fault.Invalid
// for a query with a trait that does not exist.
type Providers interface {
	Providers(ctx context.Context, query url.Values) ([]provider.Provider, error)
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Servers    *servers.Handlers
	Networking *networking.Handlers
	Catalog    *catalog.Handlers
	Consoles   *consoles.Handlers
	Store      Store
	Conductor  Conductor
	Providers  Providers // of Placement; nil: a rebuild must not require more
	ResizeHere bool      // [DEFAULT] allow_resize_to_same_host
	Now        func() time.Time
	NewID      func() string
}
