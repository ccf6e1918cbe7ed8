// Package sim simulates a cloud of about a hundred hosts with random operations, failures and restarts, and checks
// invariants after each of them.
//
// Decisions are made by production code: compute/conductor with compute/runner and compute/lifecycle, compute/flavor,
// compute/schedule, placement/candidate over placement/index, agent/device, agent/survey, agent/heal and numa. HTTP,
// SQL, files and goroutines are replaced by simple code in memory: Placement by package placementtest, compute's
// database by store, and hosts by simHost with a hypervisor, a journal and an agent. There is no real clock and no
// goroutine; everything follows from a seed, so that a failure can be replayed.
//
//	user requests ─▶ conductor ─▶ steps ─▶ placementtest ◀─ plans ─ agents ─▶ guests
//	                    ▲────────────── reports of guests ────────────┘
//
// Each message may be lost, delayed or repeated. Each call of the conductor to its database and to Placement may fail,
// lose its answer, or be the last one of the process. Databases are restored from backups and lost, directories of
// agents are copied and lost, and the wall clock of compute jumps. A simulated operator repairs the result, host by
// host.
//
// From time to time the failures stop, and the cloud must become quiescent: then nothing may be left over.
package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// Options are the size of a simulation and what is left out or broken.
type Options struct {
	Seed    uint64
	Ops     int      // operations
	Hosts   int      // 0: 120
	Quiet   int      // operations after which the cloud must become quiescent; 0: 20000
	Without []string // kinds of operations and failures that are left out
	Broken  string   // what is broken on purpose; empty: nothing
}

// Failures that Options.Without may name beside the kinds of operations.
const (
	Crashes  = "crashes"  // of an agent, anywhere
	Messages = "messages" // of agents, lost, delayed or repeated
	Answers  = "answers"  // of the database and of Placement to compute, lost
	Builds   = "builds"   // of guests, failed
	Foreign  = "foreign"  // clients that write to Placement
	Ends     = "ends"     // of the process of compute, in a call
)

// What may be broken on purpose; each must be noticed by a check. mutation_test.go breaks production code beside these.
const (
	Lenient     = "lenient"      // Placement accepts claims without room
	Orphans     = "orphans"      // compute deletes no allocations
	Early       = "early"        // compute deletes allocations before the guest is reported gone
	Undead      = "undead"       // hypervisors do not destroy guests
	Twice       = "twice"        // a guest gets devices that other guests have
	Silent      = "silent"       // agents do not report that a guest is gone
	WrongDevice = "wrong device" // a guest gets a device of another provider than the chosen one
	Unburn      = "unburn"       // agents release used devices for one-time use that were not cleaned
	Unlooked    = "unlooked"     // agents do not update Placement after changes
	Forgetful   = "forgetful"    // the journal loses a claim
	Uncounted   = "uncounted"    // compute numbers the reports of guests as they arrive

	Sweeping   = "sweeping"   // agents destroy guests that the assignments do not mention
	Backward   = "backward"   // agents follow assignments of an older database
	Doubles    = "doubles"    // compute admits every start of an agent
	Anyone     = "anyone"     // compute accepts reports of guests from any start of an agent
	Demolish   = "demolish"   // agents rebuild a guest with an older image
	Careless   = "careless"   // compute ignores which guests hosts report
	Ungated    = "ungated"    // compute does not wait for the first reports
	Hasty      = "hasty"      // agents write allocations that compute has not confirmed
	Once       = "once"       // compute names a guest for removal once
	Unrecorded = "unrecorded" // compute does not record removals on dead hosts
	WallClock  = "wall clock" // compute measures silence by the wall clock
)

// Report is the result of a simulation.
type Report struct {
	Seed          uint64
	Ops           int            // that were done
	Done          map[string]int // by kind, those that had an effect
	Quiescences   int
	LongestRounds int            // the most rounds until the cloud was quiescent
	Happened      map[string]int // by event, how often
	Failure       string         // the violation and the log, or empty
}

// World is the simulated cloud.
type World struct {
	o                Options
	broken           string
	rng              *rand.Rand
	clock            time.Duration // since the simulation began; monotonic
	skew             time.Duration // error of the wall clock of compute
	now              time.Time     // the wall clock of compute
	placement        *placementtest.Placement
	cleaned          map[provider.ID]bool // providers whose reserved amount may decrease
	compute          *compute
	hosts            []*simHost
	copies           []*simHost // machines with copied directories
	byName           map[string]*simHost
	byRoot           map[provider.ID]*simHost
	byTag            map[string]*simHost // also copies
	active           randomSet           // tags of machines whose agents may have work
	wakes            []wake
	zones            []zone
	allAliases       pci.Aliases
	delayed          []delayedReport
	foreignConsumers []string        // foreign consumers
	next             int             // for names
	noFailures       bool            // no failures now
	altered          map[string]bool // servers whose allocations others have changed since the last quiescence

	backups    []backup
	jumped     time.Duration // when the wall clock was set last
	jump       time.Duration // by how much
	owners     map[string]string
	seq        int // counts changes of compute's database
	histories  []history
	runs       map[string][]*simHost // where servers have run
	rolledBack map[string]bool       // servers whose records a restore has changed since the last quiescence
	evacuated  map[string]bool       // servers evacuated from an unreachable host since then
	progress   bool                  // an agent has done something

	n       int
	marked  []*simHost
	log     []entry
	failure string
	report  Report
}

// wake is when a machine that waits has something to do again.
type wake struct {
	at time.Duration
	m  *simHost
}

// delayedReport is a report of a guest on its way.
type delayedReport struct {
	from  *simHost
	id    string
	start string // of its agent
	e     lifecycle.Report
}

// entry is one operation or one change of a server, for the log.
type entry struct {
	n            int
	kind, of, at string
	text         string
	e            lifecycle.Event // that has changed the server; nil: the event of a step
	was, is      string
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
	for _, kind := range append(kindsOfOps(), Crashes, Messages, Answers, Builds, Foreign, Ends) {
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
	w := &World{o: o, broken: o.Broken, rng: rand.New(rand.NewPCG(o.Seed, 0)), byName: map[string]*simHost{},
		byRoot: map[provider.ID]*simHost{}, byTag: map[string]*simHost{}, altered: map[string]bool{},
		owners:    map[string]string{},
		histories: []history{{}}, runs: map[string][]*simHost{}, rolledBack: map[string]bool{}, evacuated: map[string]bool{},
		seq: 1}
	w.report.Done, w.report.Happened = map[string]int{}, map[string]int{}
	w.cleaned = map[provider.ID]bool{}
	w.placement = placementtest.New(func(root provider.ID) {
		if m := w.byRoot[root]; m != nil {
			w.markHost(m.name)
		}
	})
	w.compute = &compute{w: w, hosts: map[string]*hostState{}, process: &process{ended: true}}
	w.advance(0)
	const size = 12 // hosts of a zone: two of each kind
	for i := range o.Hosts {
		m := build(i, i/size)
		m.host = &hostState{name: m.name, named: map[string]bool{}}
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
		for m.agent != nil && m.agent.phase != serves {
			_ = w.begin(m)
		}
	}
	w.noFailures = false
	return w
}

// advance advances the clocks and wakes the machines whose wait ends.
func (w *World) advance(d time.Duration) {
	w.clock += d
	w.now = beginning().Add(w.clock + w.skew)
	if len(w.wakes) == 0 {
		return
	}
	w.wakes = slices.DeleteFunc(w.wakes, func(k wake) bool {
		if k.at <= w.clock {
			k.m.stir()
			w.active.add(k.m.tag)
		}
		return k.at <= w.clock
	})
}

// wakeAfter makes a machine active again after a while.
func (w *World) wakeAfter(m *simHost, d time.Duration) {
	w.wakes = append(w.wakes, wake{w.clock + d, m})
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

func (w *World) name(prefix string) string {
	w.next++
	return fmt.Sprintf("%s%d", prefix, w.next)
}

// mark makes a machine active, and has it checked after this operation.
func (w *World) mark(m *simHost) {
	if !slices.Contains(w.marked, m) {
		w.marked = append(w.marked, m)
	}
	m.stir()
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

// markResidences marks the machines of the hosts on which a server has a residence.
func (w *World) markResidences(s lifecycle.Server) {
	for _, stay := range s.Residences() {
		if w.byName[stay.Host] != nil {
			w.markHost(stay.Host)
		}
	}
}

// note logs and counts an operation.
func (w *World) note(kind, of, at, text string) {
	const most = 8000
	if w.report.Done[kind]++; len(w.log) >= most {
		w.log = append(w.log[:0], w.log[most/2:]...)
	}
	w.log = append(w.log, entry{n: w.n, kind: kind, of: of, at: at, text: text})
}

// logChange logs a change of a server. e is the event that has changed it; nil: the event of a step.
func (w *World) logChange(before lifecycle.Server, e lifecycle.Event, now lifecycle.Server) {
	if before.Stage() != now.Stage() {
		w.report.Happened[now.Stage()]++
	} else if e == nil {
		return
	}
	w.log = append(w.log, entry{n: w.n, kind: "·", of: now.ID, at: now.Host, e: e, was: before.Stage(), is: now.Stage()})
}

// violation records that an invariant does not hold; the first one counts.
func (w *World) violation(m *simHost, format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		if m != nil {
			w.failure = m.tag + ": " + w.failure
		}
	}
}

// excerpt returns the last log entries about what the failure names.
func (w *World) excerpt() string {
	const most = 90
	words := strings.FieldsFunc(w.failure, func(r rune) bool { return strings.ContainsRune(" ,:;()", r) })
	for _, word := range slices.Clone(words) {
		if owner := w.owners[word]; owner != "" {
			words = append(words, owner)
		}
	}
	var lines []string
	for _, e := range slices.Backward(w.log) {
		if len(lines) == most {
			break
		}
		if slices.Contains(words, e.of) || slices.Contains(words, e.at) ||
			e.of != "" && slices.Contains(words, w.owners[e.of]) {
			if e.was != e.is || e.e != nil {
				e.text = fmt.Sprintf("%s → %s  %T %s", e.was, e.is, e.e, brief(e.e))
			}
			lines = append(lines, strings.TrimRight(fmt.Sprintf("  %7d %-9s %-8s %-6s %s", e.n, e.kind, e.of, e.at, e.text),
				" "))
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// brief returns the important fields of an event.
func brief(e lifecycle.Event) string {
	switch e := e.(type) {
	case lifecycle.Report:
		return fmt.Sprintf("%d: %T %s", e.Number, e.Event, brief(e.Event))
	case lifecycle.Chosen:
		return e.Choices[0].Host
	case lifecycle.ActionRequested:
		return e.ID + " " + string(e.Action)
	case lifecycle.GuestClaimed:
		return e.Host + " as " + e.Consumer
	case lifecycle.GuestRunning:
		return e.Host + " as " + e.Consumer
	case lifecycle.GuestStopped:
		return e.Host + " as " + e.Consumer
	case lifecycle.NoValidHost:
		return e.Reason
	case lifecycle.GuestMigrated, lifecycle.GuestGone, lifecycle.GuestFailed, lifecycle.ClaimLost, lifecycle.Refused,
		lifecycle.HostDead, lifecycle.LeftoverReleased:
		return fmt.Sprint(e)
	}
	return ""
}
