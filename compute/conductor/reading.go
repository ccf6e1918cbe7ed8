package conductor

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file has what plans, checks and lists use: the reading methods of the services and of the database. Steps use
// the same code and pass it their own clients.

// PlacementReader has the requests to Placement that change nothing.
type PlacementReader interface {
	Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error)
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
	TreeAllocations(ctx context.Context, root provider.ID, whole bool) (placement.TreeAllocations, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	Inventories(ctx context.Context, id provider.ID) (placement.InventorySet, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
}

// TreeReader has the requests about provider trees that change nothing.
type TreeReader interface {
	Tree(ctx context.Context, id provider.ID) (provider.Tree, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
}

// NetworkReader has the requests to the network service that change nothing.
type NetworkReader interface {
	Ports(ctx context.Context, query url.Values) ([]network.Port, error)
	Port(ctx context.Context, id string) (network.Port, error)
	PortBindings(ctx context.Context, port string) ([]network.PortBinding, error)
	Network(ctx context.Context, id string) (network.Network, error)
}

// StoreReader has the queries of the database.
type StoreReader interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Hosts(ctx context.Context) ([]schedule.Host, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error)
	ServerOfConsumer(ctx context.Context, consumer string) (string, error)
	IDsOnHost(ctx context.Context, host string) ([]string, error)
	OnHost(ctx context.Context, host string) ([]lifecycle.Server, error)
	ByReservation(ctx context.Context, beginning string) ([]lifecycle.Server, error)
	Dead(ctx context.Context) ([]string, error)
	DisabledHosts(ctx context.Context) (map[string]string, error)
	RemovalHosts(ctx context.Context, server string) ([]string, error)
	// Revisions returns the epoch of this process, and the revision of the assignments of each host.
	Revisions(ctx context.Context) (epoch string, revisions map[string]int64, err error)
}

// Options are the options of a conductor.
type Options struct {
	Log  *slog.Logger // never nil
	Pack bool         // [compute] packing_host_numa_cells_allocation_strategy

	Aliases        pci.Aliases // [pci] alias
	PCIInPlacement bool        // [filter_scheduler] pci_in_placement

	// [DEFAULT] service_down_time: the age of the last sign of life of a host from which on it counts as silent
	Silence time.Duration
	// how long the agent of a host has to follow assignments; then servers that wait for it are placed elsewhere
	FollowWithin time.Duration
}

// reading is all that a plan of healing has. None of its values can write.
type reading struct {
	store     StoreReader
	placement PlacementReader
	providers TreeReader
	network   NetworkReader // nil: no server has ports
}

// Lease is the lease of this process on its database; *store.Lease is one.
type Lease interface {
	// Check returns nil while this process may act outside its database, else fault.Unavailable.
	Check() error
	// Bind returns a context that ends when ctx or the lease ends. stop releases it.
	Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc)
}
