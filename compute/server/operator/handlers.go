// Package operator holds the resources of the Compute API that operators use: hypervisors, compute services, hosts,
// zones and aggregates. Each resource has its file, with its paths, its handlers and its views.
package operator

import (
	"context"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Store is what the handlers need of the database; *store.Store implements it and documents its faults.
type Store interface {
	Host(ctx context.Context, name string) (schedule.Host, error)
	DisableHost(ctx context.Context, host, reason string, now time.Time) error
	EnableHost(ctx context.Context, host string) error
	DisabledHosts(ctx context.Context) (map[string]string, error)
	Aggregates(ctx context.Context) ([]store.Aggregate, error)
	CreateAggregate(ctx context.Context, a store.Aggregate) (store.Aggregate, error)
	ChangeAggregate(ctx context.Context, id int64, now time.Time,
		change func(a *store.Aggregate, all []store.Aggregate, servers map[string]int) error) (store.Aggregate, error)
	DeleteAggregate(ctx context.Context, id int64) error
	HostLoads(ctx context.Context, host string) (map[string]store.HostLoad, error)
	ListServers(ctx context.Context, f store.ServerFilter) ([]lifecycle.Server, error)
	ServerRefs(ctx context.Context, f store.ServerFilter) ([]store.ServerRef, error)
}

// Conductor declares hosts dead, reverses that, and forgets hosts. MirrorAggregates has Placement follow the aggregates
// soon.
type Conductor interface {
	MirrorAggregates()
	HostDown(ctx context.Context, host string) error
	HostUp(ctx context.Context, host string) error
	HostForget(ctx context.Context, host string) (removed, kept []string, err error)
}

// Providers is what the handlers need of Placement; *placement.Client implements it. Both methods return
// fault.NotFound for a provider that does not exist.
type Providers interface {
	Inventories(ctx context.Context, id provider.ID) (placement.InventorySet, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Store     Store
	Conductor Conductor
	Providers Providers // of Placement; nil: hypervisors have no amounts
	Process   string    // name of the host of this process
	Now       func() time.Time
}
