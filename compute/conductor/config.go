package conductor

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/compute/allocations"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/runner"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement is what the conductor needs of a Placement service; *placement.Client implements it.
type Placement interface {
	scheduler.Placement
	audit.Placement
	allocations.Placement
}

// Providers is what HostForget and the ports of servers need of Placement; *placement.Client implements it. Methods
// return fault.NotFound for a provider that does not exist. DeleteProvider returns fault.Conflict if the provider has
// children or allocations.
type Providers interface {
	ports.Trees

	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	DeleteProvider(ctx context.Context, id provider.ID) error
}

// Store is what the conductor needs of the database; *store.Store implements it. Methods return fault.NotFound for a
// server that does not exist.
type Store interface {
	presence.Store
	audit.Store
	scheduler.Store
	ports.Store
	runner.Records[lifecycle.Server]

	// Revisions returns the epoch of this process, and the revision of the assignments of each host.
	Revisions(ctx context.Context) (epoch string, revisions map[string]int64, err error)
	Create(ctx context.Context, servers ...lifecycle.Server) error
	Purge(ctx context.Context, before time.Time, keep int) error
	IDsOnHost(ctx context.Context, host string) ([]string, error)
	// IDsOfStatus lists the servers with a status of the Compute API that are not deleted.
	IDsOfStatus(ctx context.Context, status string) ([]string, error)
	ByReservation(ctx context.Context, beginning string) ([]lifecycle.Server, error)
	SetDead(ctx context.Context, host string, dead bool, now time.Time) error
	Forget(ctx context.Context, host string) error
	// RecordRemoval records that the guest of a consumer of a server must be destroyed on a host, until the agent reports
	// it gone. It has no effect while the record of the server contains the guest.
	RecordRemoval(ctx context.Context, host, consumer, server string) error
	RemovalDone(ctx context.Context, host, consumer string) error
}

// Options are the options of a conductor.
type Options struct {
	Log  *slog.Logger // never nil
	Pack bool         // [compute] packing_host_numa_cells_allocation_strategy

	Aliases        pci.Aliases // [pci] alias
	PCIInPlacement bool        // [filter_scheduler] pci_in_placement

	DefaultZone string // [DEFAULT] default_availability_zone: the zone of hosts without one

	// [DEFAULT] service_down_time: the age of the last sign of life of a host from which on it counts as silent
	Silence time.Duration
	// how long the agent of a host has to follow assignments; then servers that wait for it are placed elsewhere
	FollowWithin time.Duration

	// [DEFAULT] reclaim_instance_interval: how long a deleted server can be restored; 0: it cannot
	ReclaimInterval time.Duration
	// [DEFAULT] shelved_offload_time: how long a server that is shelved keeps its guest; below 0: until a user offloads it
	OffloadTime time.Duration

	Metrics Metrics // nil: none

	Times Times
}

// Metrics records what the conductor does; *metrics.Set implements it.
type Metrics interface {
	// Step records an attempt of a step.
	Step(step lifecycle.Step, took time.Duration, event lifecycle.Event, err error)
	// Stored records a change of a server.
	Stored(before, after lifecycle.Server, now time.Time)
}

// Times are the intervals of a conductor. Zero fields have the defaults.
type Times struct {
	Audit audit.Times

	DeadHosts   time.Duration // how often servers on dead hosts are reconciled, default 10 s
	Assignments time.Duration // how often assignments are compared with what agents have followed, default 2 s
	// how often another host is searched for servers that wait for an agent, default 10 s
	Search time.Duration
	// how long the admitted start of an agent has to reconnect, default schedule.Reconnect
	Reconnect time.Duration
	// the longest wait between two attempts of a step, default 30 s
	Retry time.Duration
	// how often servers are looked for that must be deleted or offloaded, default 10 s
	Reclaim time.Duration
}

// withDefaults returns the times with defaults for zero fields.
func (t Times) withDefaults() Times {
	t.DeadHosts, t.Assignments = cmp.Or(t.DeadHosts, 10*time.Second), cmp.Or(t.Assignments, 2*time.Second)
	t.Search, t.Reclaim = cmp.Or(t.Search, 10*time.Second), cmp.Or(t.Reclaim, 10*time.Second)
	return t
}

// Lease is the lease of this process on its database; *lease.Lease is one.
type Lease interface {
	// Check returns nil while this process may act outside its database, else fault.Unavailable.
	Check() error
	// Bind returns a context that ends when ctx or the lease ends. stop releases it.
	Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc)
}

// Config is the configuration of a conductor.
type Config struct {
	Options
	Clock

	Providers Providers     // of HostForget and of the ports of servers
	Lease     Lease         // nil: no other process can take the database
	Network   ports.Network // nil: no server has ports
	Images    Images        // nil: no disk becomes an image

	Aggregates Aggregates // of providers in Placement; nil: they do not follow the aggregates of hosts
}

// dependencies are what the steps, the requests and the loops of a conductor use: its configuration with the clock, the
// database, Placement, and the parts in other packages.
type dependencies struct {
	Config

	store     Store
	placement Placement
	writer    allocations.Writer
	failures  *presence.FailedBuilds

	Agents    *presence.Agents
	Audits    *audit.Auditor
	Scheduler *scheduler.Scheduler
	Ports     *ports.Binder
}

// newDependencies returns dependencies with the defaults of what the configuration leaves out.
func newDependencies(store Store, placement Placement, config Config) *dependencies {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	config.Silence = cmp.Or(config.Silence, schedule.Silence)
	config.FollowWithin = cmp.Or(config.FollowWithin, followWithin)
	config.Clock, config.Times = config.Clock.withDefaults(), config.Times.withDefaults()
	return &dependencies{Config: config, store: store, placement: placement,
		writer:   allocations.Writer{Placement: placement, Pause: config.Pause, Log: config.Log},
		failures: &presence.FailedBuilds{},
		Agents: presence.New(store, presence.Options{Silence: config.Silence, FollowWithin: config.FollowWithin,
			Reconnect: config.Times.Reconnect, Since: config.Clock.Since, Now: config.Clock.Now})}
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

// Images is what the conductor needs of an image service; image.Account implements it and documents its faults.
type Images interface {
	Image(ctx context.Context, id string) (image.Image, error)
	Create(ctx context.Context, attributes map[string]any) error
	Delete(ctx context.Context, id string) error
	List(ctx context.Context, filter url.Values) ([]image.Image, error)
	Unmark(ctx context.Context, id string) error
}

const (
	// followWithin is the default of Config.FollowWithin. A working agent needs milliseconds, and as long as its journal
	// takes to write.
	followWithin = 20 * time.Second

	receivesEvery = 2 * time.Second // how often compute checks that it can receive reports
)

// Clock is how a conductor reads the time and waits. Functions that are nil are those of the machine.
type Clock struct {
	Now   func() time.Time     // the wall clock
	Since func() time.Duration // since this process started; monotonic
	// Pause waits before an attempt is repeated.
	Pause func(ctx context.Context, attempt int)
	// Wait waits until the channel is closed. After an error the step that waits is repeated later.
	Wait func(ctx context.Context, until <-chan struct{}) error
	// NewID returns UUIDs, for the requests of servers.
	NewID func() string
}

// withDefaults returns a clock with the functions of the machine for those that are nil.
func (c Clock) withDefaults() Clock {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Since == nil {
		started := time.Now()
		c.Since = func() time.Duration { return time.Since(started) }
	}
	if c.Pause == nil {
		c.Pause = pause
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	return c
}

// pause waits 5 to 15 ms times the number of the attempt, or until ctx ends.
func pause(ctx context.Context, attempt int) {
	// The next call fails if ctx has ended.
	_ = backoff.Sleep(ctx, backoff.Around(time.Duration(attempt)*10*time.Millisecond))
}

// wait waits until the channel is closed, or until ctx ends; then it returns the error of ctx.
func wait(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-until:
		return nil
	}
}

// monitor observes whether the agents of hosts work: their signs of life, and which assignments they have followed.
type monitor struct {
	*dependencies

	apply    func(ctx context.Context, server string, event lifecycle.Event) error
	leaving  map[string]schedule.Choice // servers that leave a host, and where each finds room; of CheckAssignments
	searched map[string]*search         // the last search for servers that wait for a host; of CheckAssignments
}

// search is the last search for servers that wait for the agent of a host.
type search struct {
	revision   int64           // of the host's assignments then
	hypervisor bool            // the hypervisor could build no guests
	at         time.Duration   // since this process started
	found      bool            // some wait
	told       map[string]bool // those whose history has an entry about it
}
