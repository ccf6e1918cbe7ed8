// Package loop is the agent process of one host. Package reconcile decides what the agent does; this package performs
// the effects that it returns, and delivers the events: their results, the messages of compute, changes of the host's
// devices, and the time.
//
//	/sys, hypervisor, Placement, compute, journal ──▶ events ──▶ reconcile.State.Next ──▶ effects ──┐
//	             ▲                                                                                  │
//	             └────────── one goroutine for each effect in progress ◀────────────────────────────┘
//
// One goroutine calls Next, so that decisions are made one after the other. Effects run beside each other; the lock of
// the state is never held while one runs, so neither a slow disk nor a slow hypervisor delays reports.
package loop

import (
	"context"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
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
}

// Writer changes the agent's tree. Conflict: another client has written in between.
type Writer interface {
	EnsureClass(ctx context.Context, class resource.Class) error
	EnsureTrait(ctx context.Context, trait resource.Trait) error
	CreateProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (provider.Provider, error)
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

// Cleaner cleans a device for one-time use, such as by a program of the operator. On a fault the device stays used.
type Cleaner interface {
	Clean(ctx context.Context, at pci.Address) error
}

// Options configure an agent. Those without a default must be set.
type Options struct {
	Host              string    // hypervisor hostname, and the name of the root provider
	Sys               fs.FS     // shaped like /sys
	Rules             pci.Rules // [pci] device_spec
	ReportInPlacement bool      // [pci] report_in_placement
	Placement         Placement
	Compute           host.Client
	Hypervisor        hypervisor.Hypervisor
	Dir               string // of the journal
	LockDir           string // of the lock by host name that excludes a second agent; empty: no lock
	Machine           reconcile.Machine

	CPUs   reconcile.CPUs // the part of the host's CPUs and memory that guests may use
	Clean  Cleaner        // cleans a device for one-time use; nil: the caller of the clean request has cleaned it
	Events Events         // reports changes of the host's devices; nil: only the rescan finds them

	Log      *slog.Logger     // nil: slog.Default()
	Rescan   time.Duration    // interval between two syncs; 0: one minute
	Parallel int              // maximum number of concurrent builds; 0: 8
	NewID    func() string    // UUIDs; nil: random ones
	NewStart func() string    // ids of the agent's processes; nil: random ones
	Now      func() time.Time // nil: time.Now
	Jitter   func() float64   // 0 to 1; nil: random
}

// Agent is one host's agent.
type Agent struct {
	o       Options
	log     *slog.Logger
	events  chan reconcile.Event
	cancels map[string]context.CancelFunc // of the effects in progress, by work; used by serve alone

	mu    sync.Mutex       // guards state; never held while an effect is performed
	state *reconcile.State // nil before Run
}

// New returns an agent. It reads and writes nothing before Run. The fault is Invalid and names the missing option.
func New(o Options) (*Agent, error) {
	for _, need := range []struct {
		what    string
		missing bool
	}{
		{"the host's name", o.Host == ""}, {"a /sys", o.Sys == nil}, {"a Placement client", o.Placement == nil},
		{"a compute client", o.Compute.REST == nil}, {"a hypervisor", o.Hypervisor == nil},
		{"a directory for the journal", o.Dir == ""},
	} {
		if need.missing {
			return nil, fault.New(fault.Invalid, "loop.New", "the agent needs %s", need.what)
		}
	}
	if err := provider.CheckHostName(o.Host); err != nil {
		return nil, fault.Wrap(fault.Invalid, "loop.New", err)
	}
	o.setDefaults()
	return &Agent{o: o, log: o.Log.With("host", o.Host), events: make(chan reconcile.Event),
		cancels: map[string]context.CancelFunc{}}, nil
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Rescan <= 0 {
		o.Rescan = time.Minute
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
func (o *Options) config() reconcile.Config {
	return reconcile.Config{Host: o.Host, Dir: o.Dir, Rules: o.Rules, ReportInPlacement: o.ReportInPlacement,
		CPUs: o.CPUs, Machine: o.Machine, Rescan: o.Rescan, Parallel: o.Parallel, NewID: o.NewID, Jitter: o.Jitter}
}

// Run runs the agent until ctx ends, and then returns nil. An agent runs once.
//
// Faults: Unavailable when the journal is lost; Conflict when another agent uses the journal or the host's name on
// this machine, when the journal was written on another machine, or when compute reports that another agent serves the
// host; Invalid when the configuration cannot be reported; those of the hypervisor and of Placement, except
// Unavailable, which Run waits out.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.checkSys(); err != nil {
		return err
	}
	j, err := journal.Open(a.o.Dir)
	if err != nil {
		return err
	}
	defer a.close(j)
	if a.o.LockDir != "" {
		lock, err := journal.LockHost(a.o.LockDir, a.o.Host)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	state, err := reconcile.New(a.o.config(), j.State(), a.o.NewStart())
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.state = state
	a.mu.Unlock()
	if driver, ok := a.o.Hypervisor.(hypervisor.Starter); ok {
		if err := driver.Start(ctx); err != nil {
			a.log.Warn("hypervisor start failed", "error", err)
		}
	}
	ctx, unwatch := a.watched(ctx, j)
	defer unwatch()
	if err := a.serve(ctx, j); err != nil {
		return err
	}
	return j.Loss()
}

// checkSys returns a fault when Options.Sys is not a /sys.
func (a *Agent) checkSys() error { return sysfs.Check(a.o.Sys, "what the agent was given as /sys") }

// watched returns a context that also ends when the journal is lost; unwatch stops watching its files.
func (a *Agent) watched(ctx context.Context, j *journal.Journal) (watching context.Context, unwatch func()) {
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		j.Watch(watching)
		if err := j.Loss(); err != nil {
			a.log.Error("journal lost", "error", err)
		}
		cancel()
	})
	return watching, func() {
		cancel()
		watch.Wait()
	}
}

// close closes the journal after all goroutines of the agent have ended.
func (a *Agent) close(j *journal.Journal) {
	if err := j.Close(); err != nil {
		a.log.Warn("journal close failed", "error", err)
	}
}

// serve delivers events to the state machine and performs its effects, until ctx ends or the machine stops with a
// fault. It returns after all effects have ended.
func (a *Agent) serve(ctx context.Context, j *journal.Journal) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { a.listenEvents(ctx) })
	var event reconcile.Event = reconcile.Start{}
	for {
		effects, deadline := a.next(event)
		for _, e := range effects {
			if stop, is := e.(reconcile.Stop); is {
				return stop.Err
			}
			a.begin(ctx, j, e, &running)
		}
		if event = a.await(ctx, deadline); event == nil {
			return nil
		}
	}
}

// next applies an event.
func (a *Agent) next(e reconcile.Event) (effects []reconcile.Effect, deadline time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.Next(e, a.o.Now()), a.state.Deadline()
}

// await returns the next event: Tick at the deadline; nil when ctx has ended.
func (a *Agent) await(ctx context.Context, deadline time.Time) reconcile.Event {
	var tick <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(deadline.Sub(a.o.Now()))
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-ctx.Done():
		return nil
	case e := <-a.events:
		return e
	case <-tick:
		return reconcile.Tick{}
	}
}

// deliver passes an event to serve, unless ctx ends before.
func (a *Agent) deliver(ctx context.Context, e reconcile.Event) {
	select {
	case <-ctx.Done():
	case a.events <- e:
	}
}

// Report returns the host report as the agent would send it now.
func (a *Agent) Report() host.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		return host.Report{Host: a.o.Host, Devices: []host.Device{}, Conditions: []string{}}
	}
	return a.state.Report()
}
