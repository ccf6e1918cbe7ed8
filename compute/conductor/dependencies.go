package conductor

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/allocations"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/runner"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement is what the conductor needs of a Placement service; *placement.Client implements it.
type Placement interface {
	PlacementReader

	PutAllocation(ctx context.Context, consumer resource.ConsumerID, held placement.ConsumerAllocation) error
	PutAllocations(ctx context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation) error
	DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error
	Reshape(ctx context.Context, r placement.Reshape) error
	PutInventories(ctx context.Context, id provider.ID, generation int,
		inv map[resource.Class]resource.Inventory) (int, error)
}

// Providers is what HostForget needs of a Placement service; *placement.Client implements it. Methods return
// fault.NotFound for a provider that does not exist. DeleteProvider returns fault.Conflict if the provider has children
// or allocations.
type Providers interface {
	TreeReader

	DeleteProvider(ctx context.Context, id provider.ID) error
}

// Store is what the conductor needs of the database; *store.Store implements it. Methods return fault.NotFound for a
// server that does not exist.
type Store interface {
	StoreReader
	runner.Records[lifecycle.Server]

	Create(ctx context.Context, servers ...lifecycle.Server) error
	Purge(ctx context.Context, before time.Time, keep int) error
	SetDead(ctx context.Context, host string, dead bool, now time.Time) error
	Forget(ctx context.Context, host string) error
	PutReport(ctx context.Context, host schedule.Host, admit func(known schedule.Host) error) error
	// RecordRemoval records that the guest of a consumer of a server must be destroyed on a host, until the agent reports
	// it gone. It has no effect while the record of the server contains the guest.
	RecordRemoval(ctx context.Context, host, consumer, server string) error
	RemovalDone(ctx context.Context, host, consumer string) error
}

// Config is the configuration of a conductor.
type Config struct {
	Options
	Clock

	Providers Providers // used only by HostForget and HealPorts
	Lease     Lease     // nil: no other process can take the database
	Network   Network   // nil: no server has ports
	Images    Images    // nil: no server with a disk is shelved
}

// dependencies are what all parts of a conductor use: its configuration, the database, Placement, the presence of the
// agents, and the clock.
type dependencies struct {
	Config

	store     Store
	placement Placement
	writer    allocations.Writer
	agents    *presence.Agents
	failures  *presence.FailedBuilds
	audits    *audit.Auditor
	scheduler *scheduler.Scheduler
}

// newDependencies returns dependencies with the defaults of what the configuration leaves out.
func newDependencies(store Store, placement Placement, config Config) *dependencies {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	config.Silence = cmp.Or(config.Silence, schedule.Silence)
	config.FollowWithin = cmp.Or(config.FollowWithin, followWithin)
	config.Clock = config.Clock.withDefaults()
	return &dependencies{Config: config, store: store, placement: placement,
		writer:   allocations.Writer{Placement: placement, Pause: config.Pause, Log: config.Log},
		failures: &presence.FailedBuilds{},
		agents: presence.New(store, presence.Options{Silence: config.Silence, FollowWithin: config.FollowWithin,
			Since: config.Clock.Since})}
}

// read returns what planning and checking use, with the present configuration.
func (d *dependencies) read() reading {
	r := reading{store: d.store, placement: d.placement}
	if d.Providers != nil {
		r.providers = d.Providers
	}
	if d.Network != nil {
		r.network = d.Network
	}
	return r
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

// Network is what the conductor needs of a network service; *network.Client implements it. Methods return
// fault.NotFound for an object that does not exist, except DeletePort, which returns nil then.
type Network interface {
	NetworkReader

	CreatePort(ctx context.Context, attributes map[string]any) (network.Port, error)
	UpdatePort(ctx context.Context, id string, attributes map[string]any) (network.Port, error)
	UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (network.Port, error)
	DeletePort(ctx context.Context, id string) error
	BindPort(ctx context.Context, port, host, vnicType string, profile map[string]any) (network.PortBinding, error)
	ActivatePortBinding(ctx context.Context, port, host string) error
	DeletePortBinding(ctx context.Context, port, host string) error
}

// Images is what the conductor needs of an image service; image.Account implements it and documents its faults.
type Images interface {
	Image(ctx context.Context, id string) (image.Image, error)
	Create(ctx context.Context, attributes map[string]any) error
	Delete(ctx context.Context, id string) error
	Tagged(ctx context.Context, tag string) ([]image.Image, error)
}

const (
	// followWithin is the default of Config.FollowWithin. A working agent needs milliseconds, and as long as its journal
	// takes to write.
	followWithin = 20 * time.Second

	receivesEvery   = 2 * time.Second  // how often compute checks that it can receive reports
	unansweredEvery = 2 * time.Second  // how often assignments are compared with what agents have followed
	searchAgain     = 10 * time.Second // how often another host is searched for servers that wait for an agent
)

// performer performs the steps of servers, each with the lease and after the checks that it needs.
type performer struct {
	*portBinder

	build func(s lifecycle.Server) (lifecycle.Prepared, error) // builds the request to Placement
	wake  func(id string)                                      // queues a server whose step may be performed now
}

// monitor observes whether the agents of hosts work: their signs of life, and which assignments they have followed.
type monitor struct {
	*dependencies

	apply    func(ctx context.Context, server string, event lifecycle.Event) error
	leaving  map[string]schedule.Choice // servers that leave a host, and where each finds room; of CheckAssignments
	searched map[string]*search         // the last search for servers that wait for a host; of CheckAssignments
}

// Types of other packages that the handlers use.
type (
	Occupied     = presence.Occupied
	StartFailure = presence.StartFailure
	Audit        = audit.Audit
	Missing      = audit.Missing
	Foreign      = audit.Foreign
	Healing      = audit.Healing
	PlannedMove  = scheduler.PlannedMove
	HostHeadroom = scheduler.HostHeadroom
)
