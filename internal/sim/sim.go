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
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

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

// advance moves the clock. Agents whose deadline has passed get a Tick.
func (hm *hostModel) advance(d time.Duration) {
	hm.clock += d
	hm.agentClock += hm.agentWait(d)
	hm.now = beginning().Add(hm.clock + hm.skew)
	now := hm.agentTime()
	for _, list := range [][]*simHost{hm.hosts, hm.copies} {
		for _, m := range list {
			if a := m.agent; a != nil && !a.deadline.IsZero() && !now.Before(a.deadline) {
				hm.active.add(m.tag)
			}
		}
	}
}

// skewAt returns the error of the wall clock at a moment, which must not be before the last jump but one.
func (k *kernel) skewAt(at time.Duration) time.Duration {
	if at < k.jumped {
		return k.skew - k.jump
	}
	return k.skew
}

// beginning returns the start of the simulated time. Each operation takes a second.
func beginning() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// chance returns true once in n calls, and never if the failure is left out or while there are no failures.
func (k *kernel) chance(failure string, n int) bool {
	return !k.noFailures && k.rng.IntN(n) == 0 && !slices.Contains(k.options.Without, failure)
}

// some returns a random host.
func (hm *hostModel) some() *simHost { return hm.hosts[hm.rng.IntN(len(hm.hosts))] }

func (k *kernel) halfTheTime() bool { return k.rng.IntN(2) == 0 }

// oneIn returns true once in n calls on average.
func (k *kernel) oneIn(n int) bool { return k.rng.IntN(n) == 0 }

// fleetFactor is by how much more seldom something happens that concerns all hosts: the more there are, the longer they
// take to come through it.
func (hm *hostModel) fleetFactor() int { return max(1, len(hm.hosts)/40) }

func (k *kernel) name(prefix string) string {
	k.next++
	return fmt.Sprintf("%s%d", prefix, k.next)
}

// mark makes a machine active, and has it checked after this operation.
func (hm *hostModel) mark(m *simHost) {
	if !slices.Contains(hm.marked, m) {
		hm.marked = append(hm.marked, m)
	}
	hm.active.add(m.tag)
}

// machines returns the machines with the name of a host: the host itself and copies.
func (hm *hostModel) machines(name string) []*simHost {
	list := []*simHost{hm.byName[name]}
	for _, c := range hm.copies {
		if c.name == name {
			list = append(list, c)
		}
	}
	return list
}

// markHost marks all machines of a host.
func (hm *hostModel) markHost(name string) {
	hm.mark(hm.byName[name])
	for _, c := range hm.copies {
		if c.name == name {
			hm.mark(c)
		}
	}
}

// markResidences marks the machines on which a server has a residence.
func (hm *hostModel) markResidences(s lifecycle.Server) {
	for _, residence := range s.Residences() {
		if hm.byName[residence.Host] != nil {
			hm.markHost(residence.Host)
		}
	}
}

func notFound(what, id string) error {
	return fault.New(fault.NotFound, "there is no %s %s", what, id)
}

// call is a call of the hypervisor. It may fail before it has an effect, and its answer may be lost.
func (k *kernel) call(do func() error) error { return k.faulty(Builds, 150, do) }

// request is a request to compute. It fails if compute was started again after the agent has begun it.
func (am *agentModel) request(m *simHost, f *effect, seldom int, do func() error) error {
	if m.cut || f.compute != am.compute.process {
		return errDown
	}
	return am.faulty(Messages, seldom, do)
}

// faulty does something whose request or answer is lost one time in seldom.
func (k *kernel) faulty(failure string, seldom int, do func() error) error {
	if k.chance(failure, seldom) {
		return errDown
	}
	err := do()
	if k.chance(failure, seldom) {
		return errDown
	}
	return err
}

// oftenDone returns the kind of operation that is done more often in this simulation; empty if there is none.
func (k *kernel) oftenDone() string { return cmp.Or(k.options.Often, often[k.broken]) }

// agentTime is the time of agents.
func (k *kernel) agentTime() time.Time { return beginning().Add(k.agentClock) }

// agentWait converts a time of compute to one of agents.
func (k *kernel) agentWait(d time.Duration) time.Duration {
	if k.noFailures {
		return d
	}
	return d / slowness
}

var errDown = fault.New(fault.Unavailable, "the service does not answer")

// often is the kind of operation that is done more often, so that what is broken on purpose has consequences soon.
var often = map[string]string{Demolish: Restore, Ungated: Restore, WallClock: Jump}
