// Package loop is the agent process of one host: it observes the host, plans changes to Placement, reports to compute,
// and reconciles the guests with compute's assignments.
//
//	/sys, hypervisor ─▶ sync ─▶ Placement        at start, each minute, and when a held device that is gone is freed
//	             devices │ ─▶ report ─▶ compute  at each change of a device, and at least once a minute
//	compute ─▶ watch ─▶ work ─▶ ensure or remove a guest    one goroutine for each server to reconcile
//	                     └─▶ journal, hypervisor ─▶ guest report ─▶ compute
//
// The agent receives no commands. One message of assignments describes the desired state of the whole host. The agent
// compares it with its journal and its guests and converges in idempotent steps, so it may be killed between any two
// of them. A device is claimed in the journal before its guest is built, and freed after its guest is destroyed. An
// observation never frees a guest's claim. A guest that the assignments do not mention is not destroyed: the
// assignments must name it for removal.
//
// The package executes and repeats. Package survey decides what to report, heal what to write to Placement, and device
// which device a guest gets.
package loop

import (
	"context"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
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
	Machine           Machine

	CPUs   CPUs    // the part of the host's CPUs and memory that guests may use
	Clean  Cleaner // cleans a device for one-time use; nil: the caller of the clean request has cleaned it
	Events Events  // reports changes of the host's devices; nil: only the rescan finds them

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
	o   Options
	log *slog.Logger

	changed  chan struct{} // signals reportLoop
	wake     chan struct{} // signals workLoop
	syncNow  chan struct{} // signals rescanLoop
	cleanNow chan struct{} // signals cleanLoop

	reportLock sync.Mutex // held while a report is sent, so that reports arrive in order

	mu                 sync.Mutex       // guards all fields below
	journal            *journal.Journal // nil while the agent does not run
	instance           string           // id of this agent; journalled with the identity
	startID            string           // of this process
	startIDs           []string         // of this process and of earlier ones that compute has not acknowledged
	epochRead          string           // epoch of the last assignments received, accepted or not
	notFollowed        string           // why compute's assignments are not followed; empty: they are followed
	starts             int64            // number of starts with this journal; journalled with the identity
	sequence           int64            // number of guest reports since this start
	fenced             bool             // another agent serves the host, until compute accepts a report
	root               provider.ID      // empty until known
	tree               provider.Tree    // as last read from or written to Placement
	set                device.Set
	restored           bool
	scanned            []pci.Device                              // of the last sync, for devices that cannot be read now
	cells              []numa.Cell                               // of the last sync, without the usage of guests
	missing            map[resource.ConsumerID]missingAllocation // at the last sync, by holder
	cleanRequests      []pci.Address                             // devices to clean
	planWarnings       map[provider.ID]string                    // warnings about changes of providers that guests use
	cleanFailures      map[pci.Address]int                       // number of failed cleanings of a device
	lastCleanRequest   map[pci.Address]time.Time                 // the time of the last request for each device
	cleanAnswers       map[string]host.CleanResult               // to the requests that compute repeats
	guests             map[string]hypervisor.Guest               // existing guests, by server
	guestEpoch         int                                       // counts builds and removals of guests
	conditions         map[string][]string                       // by source
	claimConflicts     []claimConflict                           // journal against guests
	version            int                                       // of the host report; counts its changes
	delivered          int                                       // the version of the report that compute has; -1 for none
	assignments        assignments
	reportedRemovals   map[string]removalVersion // removals that compute has confirmed
	confirmed          map[string]host.Server    // servers whose assignment compute has confirmed, as assigned then
	newlyClaimed       map[string]bool           // their allocations may be missing in Placement
	serverWorks        map[string]*serverWork
	building           int // number of guests being built
	acked              map[string]outcome
	unreportedFailures map[string]outcome
}

// assignments are the last assignments of compute that were accepted.
type assignments struct {
	received   bool
	heartbeats int // number of messages received, repetitions included
	receivedAt time.Time
	position   host.Position
	servers    map[string]host.Server
	remove     map[string]host.Removal
}

// outcome is the phase that a server reached for one desired state.
type outcome struct {
	want    host.Server
	phase   host.Phase
	message string
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
	return &Agent{
		o: o, log: o.Log.With("host", o.Host),
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), syncNow: make(chan struct{}, 1),
		cleanNow: make(chan struct{}, 1),
		guests:   map[string]hypervisor.Guest{}, conditions: map[string][]string{}, delivered: -1,
		lastCleanRequest: map[pci.Address]time.Time{}, cleanAnswers: map[string]host.CleanResult{},
		planWarnings: map[provider.ID]string{}, cleanFailures: map[pci.Address]int{},
		serverWorks: map[string]*serverWork{}, acked: map[string]outcome{}, unreportedFailures: map[string]outcome{},
		reportedRemovals: map[string]removalVersion{}, confirmed: map[string]host.Server{}, newlyClaimed: map[string]bool{},
	}, nil
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
	a.mu.Lock()
	a.journal = j
	a.mu.Unlock()
	defer a.stop()
	if a.o.LockDir != "" {
		lock, err := journal.LockHost(a.o.LockDir, a.o.Host)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	if err := a.beginStart(); err != nil {
		return err
	}
	if driver, ok := a.o.Hypervisor.(hypervisor.Starter); ok {
		if err := driver.Start(ctx); err != nil {
			a.log.Warn("hypervisor start failed", "error", err)
		}
	}
	ctx, unwatch := a.watched(ctx, j)
	defer unwatch()
	// Compute admits the agent before Placement is written, and again with the first report: two agents may start at once.
	for _, step := range []func(context.Context) error{a.writeStart, a.admit, a.start, a.firstReport} {
		if err := step(ctx); ctx.Err() != nil {
			return j.Loss()
		} else if err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	for _, part := range []func(context.Context){a.reportLoop, a.rescanLoop, a.watchLoop, a.workLoop, a.cleanLoop,
		a.listenEvents} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	return j.Loss()
}

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

// stop closes the journal. It is called after all goroutines of the agent have ended.
func (a *Agent) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.journal.Close(); err != nil {
		a.log.Warn("journal close failed", "error", err)
	}
	a.journal, a.restored = nil, false
}

// signal sends to a channel with a buffer of one, unless a value is already pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reportChanged records that the host report has changed, and signals reportLoop. a.mu is held.
func (a *Agent) reportChanged() {
	a.version++
	signal(a.changed)
}

// condition replaces the conditions of one source, and logs new ones. a.mu is held.
func (a *Agent) condition(source string, sentences ...string) {
	if slices.Equal(a.conditions[source], sentences) {
		return
	}
	for _, s := range sentences {
		a.log.Warn(s, "about", source)
	}
	a.conditions[source] = sentences
	if len(sentences) == 0 {
		delete(a.conditions, source)
	}
	a.reportChanged()
}

// setCondition is condition for callers that do not hold a.mu.
func (a *Agent) setCondition(source string, sentences ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.condition(source, sentences...)
}

// callTime is the timeout of a request to compute that is not a stream.
const callTime = 30 * time.Second

// backoff returns the wait after a number of failures: 200 ms, doubled for each further one up to 15 s, of which the
// second half is random.
func (a *Agent) backoff(failures int) time.Duration {
	const first, most = 200 * time.Millisecond, 15 * time.Second
	wait := most
	if failures < 7 {
		wait = min(most, first<<max(failures-1, 0))
	}
	return wait/2 + time.Duration(a.o.Jitter()*float64(wait/2))
}

// sleep waits for d, and returns false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
