// Package sim simulates a cloud of about a hundred hosts with random operations, failures and restarts, and checks
// invariants after each of them.
//
// Decisions are made by production code: agent/reconcile with agent/device, agent/survey and agent/treeplan for the
// agent of each host; compute/conductor with compute/runner, compute/lifecycle and compute/schedule; compute/flavor;
// placement/candidate over placement/index; numa. Messages between agents and compute are converted by compute/server,
// and the agents' effects in Placement are performed by loop.Tree. HTTP, SQL, files and goroutines are replaced by
// simple code in memory: Placement by package placementtest, compute's database by store, and hosts by simHost with a
// hypervisor and a disk. There is no real clock and no goroutine; everything follows from a seed, so that a failure can
// be replayed.
//
//	user requests ─▶ conductor ─▶ steps ─▶ placementtest ◀─ effects ─ reconcile.State ─ effects ─▶ guests
//	                    ▲  └──────────── assignments ────────────────────▲      │
//	                    └──────────────── reports of hosts and guests ──────────┘
//
// The effects of an agent are in progress until an operation performs one of them, in any order; its result may be
// delivered later, and its answer may be lost. An agent may crash after any effect. Then each effect in progress is
// performed or not, and of a journal write the first entries may be on the disk. The next process starts on the durable
// journal.
//
// Each guest report may be lost, delayed or repeated. Each call of the conductor to its database and to Placement may
// fail, lose its answer, or be the last one of the process. Databases are restored from backups and lost, directories
// of agents are copied and lost, and the wall clock of compute jumps. A simulated operator repairs the result, host by
// host.
//
// From time to time the failures stop, and the cloud must become quiescent: then nothing may be left over.
package sim

import (
	"fmt"
	"github.com/openberth/berth/agent/hypervisor"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Options are the size of a simulation, and what is left out, broken or done more often.
type Options struct {
	Seed    uint64
	Ops     int      // operations
	Hosts   int      // 0: 120
	Quiet   int      // operations after which the cloud must become quiescent; 0: 20000
	Without []string // kinds of operations and failures that are left out
	Broken  string   // what is broken on purpose; empty: nothing
	Often   string   // kind of operation that is done more often; empty: none
	Direct  bool     // most servers have ports of vnic type direct, which change often
}

// Failures that Options.Without may name beside the kinds of operations.
const (
	Crashes  = "crashes"  // of an agent, between any two effects and in each
	Messages = "messages" // of agents, lost, late or twice
	Disks    = "disks"    // of agents, that fail to write
	Answers  = "answers"  // of steps that were done, lost
	Builds   = "builds"   // of guests, that fail, lose their answer or are done too late
	Lists    = "lists"    // of guests, that lack some or all
	Foreign  = "foreign"  // writers to Placement
	Ends     = "ends"     // of the process of compute, in a call of its database or of Placement
	Ports    = "ports"    // of servers; also the kind of operation that attaches and detaches them
	Policy   = "policy"   // the kind of operation that changes the policy of a port
)

// What may be broken on purpose; each must be noticed by a check. mutation_test.go breaks production code beside these.
const (
	Lenient     = "lenient"      // Placement accepts allocations for which there is no room
	Orphans     = "orphans"      // compute does not delete the allocations of deleted servers
	Early       = "early"        // compute deletes the allocations of a guest before its agent has reported it gone
	Undead      = "undead"       // a hypervisor does not end guests
	Twice       = "twice"        // a hypervisor gives a guest the devices of others too
	Silent      = "silent"       // agents do not report that a guest is gone
	WrongDevice = "wrong device" // a hypervisor stores another provider of a device than the chosen one
	Unlooked    = "unlooked"     // agents do not read again what has changed
	Forgetful   = "forgetful"    // the journal loses claims
	Unwritten   = "unwritten"    // the journal acknowledges entries that it does not write
	Uncounted   = "uncounted"    // compute records reports of agents in the order in which they arrive

	Sweeping   = "sweeping"   // agents read that guests that the assignments do not mention are to be removed
	Backward   = "backward"   // agents do not read the position of the assignments that they have followed
	Doubles    = "doubles"    // compute admits every start of an agent
	Anyone     = "anyone"     // compute accepts guest reports of any start of an agent
	Demolish   = "demolish"   // a hypervisor does not report how often a guest was rebuilt
	Careless   = "careless"   // compute writes to Placement although guests contradict its record
	Ungated    = "ungated"    // compute goes on with what it was doing before hosts have reported
	Once       = "once"       // compute names a guest for removal once
	Unrecorded = "unrecorded" // compute forgets the guests to remove on hosts that are declared dead
	WallClock  = "wall clock" // compute judges silence by the wall clock
)

// Report is the result of a simulation.
type Report struct {
	Seed          uint64
	Ops           int            // done
	Done          map[string]int // by kind, those that did something
	Quiescences   int
	LongestRounds int            // rounds that the longest way to a rest took
	Happened      map[string]int // what the operations led to
	Failure       string         // what is not true, or empty
}

// World is the simulated cloud.
type World struct {
	o                Options
	broken           string
	rng              *rand.Rand
	clock            time.Duration // since the simulation began; it is never set
	agentClock       time.Duration // of agents, see slowness
	skew             time.Duration // by how much the wall clock of compute is wrong
	now              time.Time     // by that wall clock
	placement        *placementtest.Placement
	lowered          map[inventory]int    // amounts in use that exceed what agents have reported since
	restores         int                  // of Placement
	cleaned          map[provider.ID]bool // their reserved amount may become smaller: their devices were cleaned
	compute          *compute
	network          *networkService
	images           map[string]simImage
	lostImages       map[string]bool // servers whose records a restore has changed: their images may be lost or left
	hosts            []*simHost
	copies           []*simHost // with copied directories, beside those of hosts
	byName           map[string]*simHost
	byRoot           map[provider.ID]*simHost
	byTag            map[string]*simHost // also copies
	active           randomSet           // tags of machines on which something is to be done
	zones            []zone
	allAliases       pci.Aliases
	delayed          []delayedReport
	late             []lateBuild
	foreignConsumers []string        // foreign consumers
	next             int             // for names
	blank            int             // number of blank disks that guests were given
	noFailures       bool            // no failures now
	altered          map[string]bool // servers whose share was taken away since the last rest

	backups    []backup
	jumped     time.Duration // when the wall clock was set last
	jump       time.Duration // by how much
	owners     map[string]string
	seq        int // counts changes of compute's database
	histories  []history
	runs       map[string][]*simHost // where servers have run
	putBack    map[string]bool       // servers whose allocations a restore has changed since the last rest
	rolledBack map[string]bool       // servers whose records a restore has changed since the last rest
	evacuated  map[string]bool       // servers that were evacuated from a host that was out of reach, since the last rest
	// requests of devices of ports that were attached or detached since the last rest: an agent may try a change again
	// that compute has cancelled
	portChanges map[string]bool
	noted       int  // operations and what followed from them that are in the log
	progress    bool // an agent has done something

	n       int
	marked  []*simHost
	log     []entry
	failure string
	report  Report
}

// inventory is a class of a provider.
type inventory struct {
	provider provider.ID
	class    resource.Class
}

// delayedReport is what an agent said, on its way.
type delayedReport struct {
	from  *simHost
	id    string
	start string // of its agent
	e     lifecycle.Report
}

// lateBuild is a request to build a guest whose answer was lost and that the hypervisor has not executed yet.
type lateBuild struct {
	at    *simHost
	guest hypervisor.Guest
}

// Run runs a simulation. It ends at the first violation.
func Run(o Options) Report {
	w := newWorld(o)
	for w.n = 1; w.n <= o.Ops && w.failure == ""; w.n++ {
		w.advance(time.Second)
		w.operate()
		w.checkMarked()
		if w.failure == "" && w.n%w.o.Quiet == 0 {
			w.quiesce()
		}
	}
	if w.failure == "" {
		w.finish()
	}
	w.report.Seed, w.report.Ops = o.Seed, min(w.n, o.Ops)
	if w.failure != "" {
		w.report.Failure = fmt.Sprintf("seed %d, operation %d: %s\n%s", o.Seed, w.n, w.failure, w.excerpt())
	}
	return w.report
}

// Shrink repeats a failed simulation without one more kind of operations and failures at a time, and returns the
// smallest one that still fails.
func Shrink(o Options, failed Report) (Options, Report) {
	o.Ops = failed.Ops
	for _, kind := range append(kindsOfOps(), Crashes, Messages, Disks, Answers, Builds, Lists, Foreign, Ends) {
		less := o
		less.Without = append(slices.Clone(o.Without), kind)
		if r := Run(less); r.Failure != "" {
			o, failed = less, r
			o.Ops = r.Ops
		}
	}
	return o, failed
}

func newWorld(o Options) *World {
	if o.Hosts == 0 {
		o.Hosts = 120
	}
	if o.Quiet == 0 {
		o.Quiet = 20000
	}
	w := &World{o: o, broken: o.Broken, rng: rand.New(rand.NewPCG(o.Seed, 0)),
		byName: map[string]*simHost{}, byRoot: map[provider.ID]*simHost{}, byTag: map[string]*simHost{},
		altered: map[string]bool{}, owners: map[string]string{},
		histories: []history{{}}, runs: map[string][]*simHost{},
		images: map[string]simImage{}, lostImages: map[string]bool{},
		rolledBack: map[string]bool{}, evacuated: map[string]bool{},
		putBack: map[string]bool{}, portChanges: map[string]bool{},
		seq: 1}
	w.report.Done, w.report.Happened = map[string]int{}, map[string]int{}
	w.cleaned, w.lowered = map[provider.ID]bool{}, map[inventory]int{}
	w.placement = placementtest.New(func(root provider.ID) {
		if m := w.byRoot[root]; m != nil {
			w.markHost(m.name)
		}
	})
	if o.Seed%2 == 1 {
		w.placement.RefuseOverCapacity()
	}
	w.network = &networkService{w: w, ports: map[string]network.Port{},
		inactive: map[string]map[string]network.PortBinding{}}
	w.compute = &compute{w: w, hosts: map[string]*hostState{}, process: &process{ended: true}}
	w.advance(0)
	const size = 12 // hosts of a zone: two of each kind
	for i := range o.Hosts {
		m := build(i, i/size, !slices.Contains(o.Without, Ports))
		m.host = &hostState{name: m.name}
		w.compute.hosts[m.name] = m.host
		w.hosts, w.byName[m.name], w.byRoot[m.root], w.byTag[m.tag] = append(w.hosts, m), m, m, m
		if i%size == 0 {
			w.zones = append(w.zones, newZone(i/size))
		}
	}
	w.allAliases = w.aliases()
	w.compute.setDatabase(newDatabase(w.name("cloud"), w.hosts, 0))
	w.compute.startProcess()
	w.noFailures = true
	for _, m := range w.hosts {
		w.start(m)
		for m.agent != nil && w.act(m) {
		}
	}
	w.noFailures = false
	return w
}

// advance moves the clock. Agents whose deadline has passed get a Tick.
func (w *World) advance(d time.Duration) {
	w.clock += d
	w.agentClock += w.agentWait(d)
	w.now = beginning().Add(w.clock + w.skew)
	now := w.agentTime()
	for _, list := range [][]*simHost{w.hosts, w.copies} {
		for _, m := range list {
			if a := m.agent; a != nil && !a.deadline.IsZero() && !now.Before(a.deadline) {
				w.active.add(m.tag)
			}
		}
	}
}

// skewAt returns the error of the wall clock at a moment, which must not be before the last jump but one.
func (w *World) skewAt(at time.Duration) time.Duration {
	if at < w.jumped {
		return w.skew - w.jump
	}
	return w.skew
}

// beginning returns the start of the simulated time. Each operation takes a second.
func beginning() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// chance returns true once in n calls, and never if the failure is left out or while there are no failures.
func (w *World) chance(failure string, n int) bool {
	return !w.noFailures && w.rng.IntN(n) == 0 && !slices.Contains(w.o.Without, failure)
}

// some returns a random host.
func (w *World) some() *simHost { return w.hosts[w.rng.IntN(len(w.hosts))] }

func (w *World) halfTheTime() bool { return w.rng.IntN(2) == 0 }

// oneIn returns true once in n calls on average.
func (w *World) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

// fleetFactor is by how much more seldom something happens that concerns all hosts: the more there are, the longer they
// take to come through it.
func (w *World) fleetFactor() int { return max(1, len(w.hosts)/40) }

func (w *World) name(prefix string) string {
	w.next++
	return fmt.Sprintf("%s%d", prefix, w.next)
}

// mark makes a machine active, and has it checked after this operation.
func (w *World) mark(m *simHost) {
	if !slices.Contains(w.marked, m) {
		w.marked = append(w.marked, m)
	}
	w.active.add(m.tag)
}

// machines returns the machines with the name of a host: the host itself and copies.
func (w *World) machines(name string) []*simHost {
	list := []*simHost{w.byName[name]}
	for _, c := range w.copies {
		if c.name == name {
			list = append(list, c)
		}
	}
	return list
}

// markHost marks all machines of a host.
func (w *World) markHost(name string) {
	w.mark(w.byName[name])
	for _, c := range w.copies {
		if c.name == name {
			w.mark(c)
		}
	}
}

// markResidences marks the machines on which a server has a residence.
func (w *World) markResidences(s lifecycle.Server) {
	for _, stay := range s.Residences() {
		if w.byName[stay.Host] != nil {
			w.markHost(stay.Host)
		}
	}
}
