// Package loop is the running agent of one host: it observes, plans, reports, and makes the guests what compute says
// they shall be.
//
//	/sys, hypervisor ─▶ sync ─▶ Placement        at the start, each minute, and when something held is freed that is gone
//	             devices │ ─▶ report ─▶ compute  at each change of a device, and at least once a minute
//	compute ─▶ watch ─▶ work ─▶ raise or remove  one goroutine for each server that is not as it shall be
//	                     └─▶ journal, hypervisor, ─▶ what became of the guest ─▶ compute
//
// Nobody commands the agent. A line of assignments is the whole truth about the host; the agent compares it with its
// journal and its guests and converges, one idempotent step after the other, so that it may be killed between any two
// of them. A device is claimed in the journal before its guest is built, and freed after its guest is destroyed. What
// is observed never frees a claim of a guest, and no guest is destroyed because a line does not mention it: a line must
// name it for removal.
//
// The package wires and repeats. What to report is decided by survey, what to write by heal, which device by device.
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

// Reader is how the agent sees the provider tree; *placement.Client is one. NotFound: there is no such provider.
type Reader interface {
	ProviderByName(ctx context.Context, name string) (provider.Provider, error)
	Tree(ctx context.Context, id provider.ID) (provider.Tree, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
}

// Writer is how the agent changes its tree. Conflict: somebody else was faster.
type Writer interface {
	EnsureClass(ctx context.Context, class resource.Class) error
	EnsureTrait(ctx context.Context, trait resource.Trait) error
	CreateProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (provider.Provider, error)
	DeleteProvider(ctx context.Context, id provider.ID) error
	PutInventories(ctx context.Context, id provider.ID, generation int, inv map[resource.Class]resource.Inventory) (int, error)
	PutTraits(ctx context.Context, id provider.ID, generation int, traits []resource.Trait) (int, error)
	Reshape(ctx context.Context, r placement.Reshape) error
}

// Placement is all that the agent needs of Placement; *placement.Client is one. Unavailable: it does not answer now.
type Placement interface {
	Reader
	Writer
	// Allocation is what a server holds; empty when it holds nothing.
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.Held, error)
}

// Options are what an agent is made of. Those without a default must be set.
type Options struct {
	Host              string    // hypervisor hostname, and the name of the root provider
	Sys               fs.FS     // shaped like /sys
	Rules             pci.Rules // [pci] device_spec
	ReportInPlacement bool      // [pci] report_in_placement
	Placement         Placement
	Compute           host.Client
	Hypervisor        hypervisor.Hypervisor
	Dir               string // of the journal
	LockDir           string // of the locks by host name, which exclude a second agent of this host on this machine; empty: none is taken
	Machine           Machine

	CPUs   CPUs    // what of the host's CPUs and memory guests may have
	Clean  Cleaner // makes a device for one-time use as new; nil: whoever asks has done it
	Events Events  // tells of changes of the host's devices; nil: only the rescan finds them

	Log      *slog.Logger     // nil: slog.Default()
	Rescan   time.Duration    // how often to look at the host; 0: one minute
	Parallel int              // how many guests are built at once; 0: 8
	NewID    func() string    // UUIDs; nil: random ones
	NewStart func() string    // ids of the agent's processes; nil: random ones
	Now      func() time.Time // nil: time.Now
	Jitter   func() float64   // 0 to 1; nil: random
}

// Agent is one host's agent.
type Agent struct {
	o   Options
	log *slog.Logger

	changed  chan struct{} // there is something to report
	wake     chan struct{} // there may be work
	syncNow  chan struct{} // sync now, do not wait for the next time
	cleanNow chan struct{} // there are devices to be cleaned

	reportLock sync.Mutex // held while a report is on its way, so that a newer one never comes before an older one

	mu                 sync.Mutex       // guards all below
	journal            *journal.Journal // nil while the agent does not run
	instance           string           // of this agent, as the journal has it or shall have it
	startID            string           // of this process
	startIDs           []string         // of this process and of those before it that compute has not acknowledged
	epochRead          string           // of the last line, whether it was followed or not
	notFollowed        string           // why compute's assignments are not followed; empty: they are
	starts             int64            // how often an agent of this journal has begun, as the journal has it or shall have it
	sequence           int64            // how much has been said of guests since
	fenced             bool             // another agent serves the host: nothing is built or written until compute takes a report again
	root               provider.ID      // empty until known
	tree               provider.Tree    // as Placement had it last
	set                device.Set
	restored           bool
	scanned            []pci.Device                              // of the last look, for devices that cannot be read now
	cells              []numa.Cell                               // of the last look, without what guests use
	missing            map[resource.ConsumerID]missingAllocation // who lacked a share in Placement at the last look
	cleanRequests      []pci.Address                             // devices to be cleaned
	planWarnings       map[provider.ID]string                    // what plans have changed under guests
	cleanFailures      map[pci.Address]int                       // how often a device could not be cleaned
	lastCleanRequest   map[pci.Address]time.Time                 // the last wish for each device
	cleanAnswers       map[string]host.Answer                    // what became of wishes that compute still repeats, by address
	guests             map[string]hypervisor.Guest               // that exist, by server
	guestEpoch         int                                       // counts what was built and destroyed
	conditions         map[string][]string                       // sentences by where they come from
	claimConflicts     []claimConflict                           // claims of the journal that guests contradict
	version            int                                       // counts changes of what is reported
	delivered          int                                       // the version that compute has; -1 for none
	assignments        assignments
	reportedRemovals   map[string]removalVersion // removals whose end compute knows, as long as the line names them
	confirmed          map[string]host.Server    // servers that compute has confirmed to be assigned here, as they were then
	newlyClaimed       map[string]bool           // servers whose claim compute has just confirmed and whose shares may be missing in Placement
	serverWorks        map[string]*serverWork
	building           int // how many jobs raise guests now
	acked              map[string]outcome
	unreportedFailures map[string]outcome
}

// line is the last truth that compute told.
type assignments struct {
	received   bool
	heartbeats int // lines heard, also those that say the same again
	receivedAt time.Time
	position   host.Position
	servers    map[string]host.Server
	remove     map[string]host.Removal
}

// fate is what became of a server as it was wanted.
type outcome struct {
	want    host.Server
	phase   host.Phase
	message string
}

// New makes an agent. It touches nothing before Run. The fault is Invalid and names what is missing.
func New(o Options) (*Agent, error) {
	for _, need := range []struct {
		what    string
		missing bool
	}{
		{"the host's name", o.Host == ""}, {"a /sys", o.Sys == nil}, {"a Placement client", o.Placement == nil},
		{"a compute client", o.Compute.REST == nil}, {"a hypervisor", o.Hypervisor == nil}, {"a directory for the journal", o.Dir == ""},
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
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), syncNow: make(chan struct{}, 1), cleanNow: make(chan struct{}, 1),
		guests: map[string]hypervisor.Guest{}, conditions: map[string][]string{}, delivered: -1, lastCleanRequest: map[pci.Address]time.Time{}, cleanAnswers: map[string]host.Answer{}, planWarnings: map[provider.ID]string{}, cleanFailures: map[pci.Address]int{},
		serverWorks: map[string]*serverWork{}, acked: map[string]outcome{}, unreportedFailures: map[string]outcome{},
		reportedRemovals: map[string]removalVersion{}, confirmed: map[string]host.Server{}, newlyClaimed: map[string]bool{},
	}, nil
}

// Run is the life of the agent: it ends with ctx, and then without a fault, or when the start is refused. An agent runs
// once. Faults: Unavailable when the journal is lost; Conflict when another agent has the journal or the host's name on
// this machine, when the journal was written on another machine, or when, as compute says, another agent serves the
// host; Invalid when what the configuration says cannot be reported; those of the hypervisor and of Placement, but not
// Unavailable, which is waited out.
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
	// Compute is asked before Placement is written to, and again with the first report: two agents may start at the same moment.
	for _, step := range []func(context.Context) error{a.writeStart, a.admit, a.start, a.firstReport} {
		if err := step(ctx); ctx.Err() != nil {
			return j.Loss()
		} else if err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	for _, part := range []func(context.Context){a.reportLoop, a.rescanLoop, a.watchLoop, a.workLoop, a.cleanLoop, a.listenEvents} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	return j.Loss()
}

// watched returns a context that also ends when the journal is lost; unwatch ends the watch of its files.
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

// stop closes the journal. Nothing of the agent runs any more.
func (a *Agent) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.journal.Close(); err != nil {
		a.log.Warn("cannot close the journal", "error", err)
	}
	a.journal, a.restored = nil, false
}

// poke fills a channel of one place.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// touch says that what is reported has changed. a.mu is held.
func (a *Agent) reportChanged() {
	a.version++
	signal(a.changed)
}

// condition sets the sentences that come from one source. a.mu is held.
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

// setCondition is condition for those who do not hold a.mu.
func (a *Agent) setCondition(source string, sentences ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.condition(source, sentences...)
}

// callTime is how long compute has for an answer that is no stream.
const callTime = 30 * time.Second

// backoff is how long to wait after so many failures: from 200 ms, doubling, to 15 s, and half of it at random.
func (a *Agent) backoff(failures int) time.Duration {
	const first, most = 200 * time.Millisecond, 15 * time.Second
	wait := most
	if failures < 7 {
		wait = min(most, first<<max(failures-1, 0))
	}
	return wait/2 + time.Duration(a.o.Jitter()*float64(wait/2))
}

// sleep waits, and says whether ctx is still alive.
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
