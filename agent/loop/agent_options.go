package loop

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/health"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Reader reads the provider tree; *placement.Client implements it. NotFound: there is no such provider.
type Reader interface {
	ProviderByName(ctx context.Context, name string) (provider.Provider, error)
	Tree(ctx context.Context, id provider.ID) (provider.Tree, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	// TreeAllocations returns the allocations of the whole tree of a root, if the service can.
	TreeAllocations(ctx context.Context, root provider.ID, whole bool) (placement.TreeAllocations, error)
}

// Writer changes the agent's tree. Conflict: another client has written in between.
type Writer interface {
	EnsureClass(ctx context.Context, class resource.Class) error
	EnsureTrait(ctx context.Context, trait resource.Trait) error
	CreateProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (provider.Provider, error)
	// PutProvider changes the name and the parent of a provider.
	PutProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (provider.Provider, error)
	DeleteProvider(ctx context.Context, id provider.ID) error
	PutInventories(ctx context.Context, id provider.ID, generation int,
		inv map[resource.Class]resource.Inventory) (int, error)
	PutTraits(ctx context.Context, id provider.ID, generation int, traits []resource.Trait) (int, error)
	Reshape(ctx context.Context, r placement.Reshape) error
}

// Placement is the part of the Placement API that the agent uses; *placement.Client implements it. Unavailable:
// Placement does not answer now.
type Placement interface {
	Reader
	Writer
	// Allocation returns the allocation of a consumer; empty when it has none.
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
}

// Cleaner cleans a device for one-time use; program.Program implements it. On a fault the device stays used.
type Cleaner interface {
	Run(ctx context.Context, id device.ID) error
}

// Preparer prepares devices that have a value of a property in common, before a guest starts with them; program.Program
// implements it. On a fault the guest does not start.
type Preparer interface {
	Prepare(ctx context.Context, set device.MatchedSet) error
}

// HealthChecker checks a device; health.Checker implements it. The fault means that it could not be checked.
type HealthChecker interface {
	Check(ctx context.Context, id device.ID) (health.Result, error)
}

// VFSetter changes the number of VFs of a PF; sysfs.Source implements it. Without change if the PF has this many, or,
// for a count above 0, any: that is the operator's number. Unavailable: try again later.
type VFSetter interface {
	SetVFs(pf pci.Address, count int) error
}

// DeviceCare is what the agent does for the devices of the host.
type DeviceCare struct {
	Clean          Cleaner       // cleans a device for one-time use; nil: the caller of the clean request has cleaned it
	Prepare        Preparer      // nil: sets of devices are not prepared
	Health         HealthChecker // nil: devices are not checked
	HealthInterval time.Duration // 0: one minute
	VFs            VFSetter      // nil: no PF whose rule has shapes can be given to a guest
}

// DataPlane configures VFs for the ports of guests; *dataplane.DataPlane implements it.
type DataPlane interface {
	// Configure configures VFs that a guest is about to get. Unavailable: try again later.
	Configure(ctx context.Context, vfs []vfconfig.Assigned) error
	Reset(ctx context.Context, devices []device.ID) error
	// Compare corrects the VFs that guests have, and returns the conditions.
	Compare(ctx context.Context, assigned func() []vfconfig.Assigned) []condition.Condition
}

// HostNetworks are the networks that the host connects by Linux bridges; *bridges.Bridges implements it.
type HostNetworks interface {
	// Sync makes the networks those of the network service, and returns the conditions.
	Sync(ctx context.Context) []condition.Condition
	// Prepare makes the networks of ports before their guest is built or received. Unavailable: try again later.
	Prepare(ctx context.Context, ports []string) error
}

// NetworkAgents receives heartbeats; *network.Client implements it. NotFound: the network service has no such request,
// as Neutron.
type NetworkAgents interface {
	ReportAgent(ctx context.Context, host, agentType string, report network.AgentReport) error
}

// Events calls changed for each change on the host's PCI bus, until ctx ends or it fails.
type Events func(ctx context.Context, changed func()) error

// Reported is the configuration of what the agent reports to Placement.
type Reported struct {
	Kinds             []kind.Kind       // of devices, beside PCI
	Rules             pci.Rules         // [pci] device_spec
	ReportInPlacement bool              // [pci] report_in_placement
	ReportNetwork     bool              // [berth] report_network_devices
	VFIO              bool              // the hypervisor gives devices to guests by VFIO
	CPUs              state.CPUs        // the part of the host's CPUs and memory that guests may use
	ReportBandwidth   bool              // [berth] report_bandwidth
	Bandwidth         []bandwidth.Agent // Neutron's options of this host, by agent type
	Conditions        []string          // of the configuration; the host has them as long as the agent runs
}

// Networking is what the agent does for the network service.
type Networking struct {
	DataPlane    DataPlane     // configures VFs for ports; nil: devices with physical_network are used as they are
	PortInterval time.Duration // interval between two comparisons of VFs with their ports; 0: 30 seconds
	Bridges      HostNetworks  // nil: no network is connected by bridges of the agent
	// BridgeAgent is the heartbeat of the host's Linux bridge agent, with Bridges
	BridgeAgent    bandwidth.Heartbeat
	BridgeInterval time.Duration // interval between two reads of the networks of Bridges; 0: 2 seconds
	Network        NetworkAgents // receives the heartbeats of the host's network agents; nil: none are sent
}

// Options configure an agent. Those without a default must be set.
type Options struct {
	Host  string       // hypervisor hostname, and the name of the root provider
	Facts facts.Source // reads the host's hardware
	Reported
	Placement  Placement
	Compute    host.Client
	Hypervisor hypervisor.Hypervisor
	Dir        string // of the journal
	LockDir    string // of the lock by host name that excludes a second agent; empty: no lock
	Machine    state.Machine
	LockID     func(dir string) string // returns Machine.LockID of a locked journal's directory; nil: Machine has it

	Networking

	DeviceCare
	Events Events // reports changes of the host's devices; nil: only the rescan finds them

	Times
	Log      *slog.Logger     // nil: slog.Default()
	Parallel int              // maximum number of concurrent builds; 0: 8
	NewID    func() string    // UUIDs; nil: random ones
	NewStart func() string    // ids of the agent's processes; nil: random ones
	Now      func() time.Time // nil: time.Now
	Jitter   func() float64   // 0 to 1; nil: random
}

// Times are the intervals and waits of an agent. Zero fields have the defaults.
type Times struct {
	state.Times

	Rescan time.Duration // interval between two syncs, default 1 min

	// between the first change of a guest and the observation of all, default 1 s: several guests often change together,
	// and a guest that ends again and again is not started more often
	GuestSettle     time.Duration
	HypervisorCheck time.Duration // between two checks of the hypervisor, default 3 s
	HeartbeatPoll   time.Duration // a change is sent to the network service within this time, default 1 s
	HeartbeatRetry  time.Duration // after a heartbeat that was not sent, default 5 s
}

// withDefaults returns the times with defaults for zero fields, except those of the state machine.
func (t Times) withDefaults() Times {
	t.GuestSettle, t.HypervisorCheck = cmp.Or(t.GuestSettle, time.Second), cmp.Or(t.HypervisorCheck, 3*time.Second)
	if t.Rescan <= 0 {
		t.Rescan = time.Minute
	}
	t.HeartbeatPoll = cmp.Or(t.HeartbeatPoll, heartbeatPoll)
	t.HeartbeatRetry = cmp.Or(t.HeartbeatRetry, heartbeatRetry)
	return t
}

// Agent is one host's agent.
type Agent struct {
	Started chan struct{} // closed when Run has its journal and the locks of the host, and begins to work

	o       Options
	log     *slog.Logger
	events  chan state.Event
	compare chan struct{}                 // has an element when VFs must be compared with their ports at once
	cancels map[string]context.CancelFunc // of the effects in progress, by work; used by serve alone
	forces  map[string]chan struct{}      // of the live migrations in progress, by work; used by serve alone

	conditions networkConditions

	driverFailed atomic.Bool // hypervisor.Starter has failed, and must be called again

	start sync.Once // closes Started

	mu    sync.Mutex       // guards state; never held while an effect is performed
	state *reconcile.State // nil before Run
}

// New returns an agent. It reads and writes nothing before Run. The fault is Invalid and names the missing option.
func New(o Options) (*Agent, error) {
	for _, need := range []struct {
		what    string
		missing bool
	}{
		{"the host's name", o.Host == ""}, {"a source of facts", o.Facts == nil}, {"a Placement client", o.Placement == nil},
		{"a compute client", o.Compute.REST == nil}, {"a hypervisor", o.Hypervisor == nil},
		{"a directory for the journal", o.Dir == ""},
	} {
		if need.missing {
			return nil, fault.New(fault.Invalid, "the agent needs %s", need.what)
		}
	}
	if err := provider.CheckHostName(o.Host); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	o.setDefaults()
	return &Agent{o: o, log: o.Log.With("host", o.Host), events: make(chan state.Event), compare: make(chan struct{},
		1), Started: make(chan struct{}),
		cancels: map[string]context.CancelFunc{}, forces: map[string]chan struct{}{}}, nil
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Times = o.Times.withDefaults()
	if o.HealthInterval <= 0 {
		o.HealthInterval = time.Minute
	}
	if o.Health == nil {
		o.HealthInterval = 0
	}
	if o.PortInterval <= 0 {
		o.PortInterval = 30 * time.Second
	}
	if o.BridgeInterval <= 0 {
		o.BridgeInterval = 2 * time.Second
	}
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.NewStart == nil {
		o.NewStart = uuid.NewString
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
}

// config returns the options of the state machine.
func (o *Options) config() state.Config {
	_, receives := o.Hypervisor.(hypervisor.Receiver)
	return state.Config{Host: o.Host, Dir: o.Dir, Kinds: o.Kinds, Rules: o.Rules,
		ReportInPlacement: o.ReportInPlacement,
		ReportNetwork:     o.ReportNetwork, VFIO: o.VFIO,
		ReportBandwidth: o.ReportBandwidth, Bandwidth: o.Bandwidth, Conditions: o.Conditions, CPUs: o.CPUs,
		Machine: o.Machine, Rescan: o.Rescan, Times: o.Times.Times,
		HealthChecks: o.HealthInterval,
		Parallel:     o.Parallel, NewID: o.NewID, Jitter: o.Jitter,
		Preparations: state.Preparations{ConfigureVFs: o.DataPlane != nil, ReceivesGuests: receives,
			PreparesSets: o.Prepare != nil}}
}
