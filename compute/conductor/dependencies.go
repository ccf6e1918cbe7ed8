package conductor

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/runner"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement is what the conductor needs of a Placement service; *placement.Client implements it.
type Placement interface {
	Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error)
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
	PutAllocation(ctx context.Context, consumer resource.ConsumerID, held placement.ConsumerAllocation) error
	PutAllocations(ctx context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation) error
	DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error

	TreeAllocations(ctx context.Context, root provider.ID, whole bool) (placement.TreeAllocations, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	Inventories(ctx context.Context, id provider.ID) (placement.InventorySet, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
	Reshape(ctx context.Context, r placement.Reshape) error
	PutInventories(ctx context.Context, id provider.ID, generation int,
		inv map[resource.Class]resource.Inventory) (int, error)
}

// Providers is what HostForget needs of a Placement service; *placement.Client implements it. Methods return
// fault.NotFound for a provider that does not exist. DeleteProvider returns fault.Conflict if the provider has children
// or allocations.
type Providers interface {
	Tree(ctx context.Context, id provider.ID) (provider.Tree, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	DeleteProvider(ctx context.Context, id provider.ID) error
}

// Store is what the conductor needs of the database; *store.Store implements it. Methods return fault.NotFound for a
// server that does not exist.
type Store interface {
	runner.Records[lifecycle.Server]
	Create(ctx context.Context, servers ...lifecycle.Server) error
	Hosts(ctx context.Context) ([]schedule.Host, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error)
	Purge(ctx context.Context, before time.Time, keep int) error
	ServerOfConsumer(ctx context.Context, consumer string) (string, error)
	IDsOnHost(ctx context.Context, host string) ([]string, error)
	OnHost(ctx context.Context, host string) ([]lifecycle.Server, error)
	ByReservation(ctx context.Context, beginning string) ([]lifecycle.Server, error)
	SetDead(ctx context.Context, host string, dead bool, now time.Time) error
	Dead(ctx context.Context) ([]string, error)
	DisabledHosts(ctx context.Context) (map[string]string, error)
	Forget(ctx context.Context, host string) error
	PutReport(ctx context.Context, host schedule.Host, admit func(known schedule.Host) error) error
	RemovalDone(ctx context.Context, host, consumer string) error
	RemovalHosts(ctx context.Context, server string) ([]string, error)
}

// Lease is the lease of this process on its database; *store.Lease is one.
type Lease interface {
	// Check returns nil while this process may act outside its database, else fault.Unavailable.
	Check() error
	// Bind returns a context that ends when ctx or the lease ends. stop releases it.
	Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc)
}

// Config is the configuration of a conductor. It may be changed until Run or Perform is called.
type Config struct {
	Log  *slog.Logger // never nil
	Pack bool         // [compute] packing_host_numa_cells_allocation_strategy

	Aliases        pci.Aliases // [pci] alias
	PCIInPlacement bool        // [filter_scheduler] pci_in_placement

	// [DEFAULT] service_down_time: the age of the last report of a host from which on it counts as silent
	Silence time.Duration

	Providers Providers // used only by HostForget and HealPorts
	Lease     Lease     // nil: no other process can take the database
	Network   Network   // nil: no server has ports
}

// dependencies are what all parts of a conductor use: its configuration, the database, Placement, the presence of the
// agents, and the clock.
type dependencies struct {
	Config

	store     Store
	placement Placement
	presence  *presence
	started   time.Time // of this process

	now   func() time.Time
	newID func() string                                          // returns UUIDs, for requests
	pause func(ctx context.Context, attempt int)                 // before a claim is retried
	wait  func(ctx context.Context, until <-chan struct{}) error // until the channel is closed
}

// newDependencies returns dependencies with the clock of the machine and an empty configuration.
func newDependencies(store Store, placement Placement) *dependencies {
	return &dependencies{Config: Config{Log: slog.Default(), Silence: schedule.Silence}, store: store,
		placement: placement,
		presence:  newPresence(), started: time.Now(), now: time.Now, newID: uuid.NewString, pause: pause, wait: wait}
}

// leased returns a context for calls of other services, which ends with the lease. It returns fault.Unavailable if the
// lease has ended.
func (d *dependencies) leased(ctx context.Context) (bound context.Context, stop context.CancelFunc, err error) {
	if d.Lease == nil {
		return ctx, func() {}, nil
	}
	if err := d.Lease.Check(); err != nil {
		return nil, nil, err
	}
	bound, stop = d.Lease.Bind(ctx)
	return bound, stop, nil
}

// refused reports whether Placement has refused a request in a way that a retry does not change.
func refused(err error) bool {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NoCapacity, fault.Invalid, fault.NotFound, fault.Forbidden:
		return fault.CodeOf(err) != placement.CodeConcurrentUpdate
	}
	return false
}
