package sim

import (
	"slices"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/resource"
)

// delayedReport is what an agent said, on its way.
type delayedReport struct {
	from  *simHost
	id    string
	start string // of its agent
	e     lifecycle.Report
}

// agentModel is the agents of all machines.
type agentModel struct {
	*kernel
	*hostModel
	*exemptions
	placement  *placementModel
	images     *imageModel
	compute    *computeModel
	hypervisor *hypervisorModel
	delayed    []delayedReport
	progress   bool // an agent has done something
}

// request is a request to compute. It fails if compute was started again after the agent has begun it.
func (am *agentModel) request(m *simHost, f *effect, seldom int, do func() error) error {
	if m.cut || f.compute != am.compute.process {
		return errDown
	}
	return am.faulty(Messages, seldom, do)
}

// tree is what performs the effects of the agent of a machine in Placement.
func (am *agentModel) tree(m *simHost) loop.Tree {
	return loop.Tree{Host: m.name, Placement: am.placement.Client(func(placementtest.Call) (before, after error) {
		switch {
		case m.cut || am.chance(Messages, 400):
			return errDown, nil
		case am.chance(Messages, 400):
			return nil, errDown
		}
		return nil, nil
	})}
}

// checkHistory checks a line that an agent follows: it must not come from a database that lacks what the agent has
// followed before.
func (am *agentModel) checkHistory(m *simHost, d delivery) {
	if !am.compute.precedes(m.disk.followed, d.state) {
		am.violation(m, "follow: the agent follows revision %d of a database that lacks what it has followed: history %d, "+
			"and it has seen %d", d.assignments.Revision, d.state.branch, m.disk.followed.branch)
	}
}

// checkShared checks an allocation that an agent has written to Placement: compute must place the consumer there, and
// must have confirmed that to this process of the agent, now or when the agent read the allocation. A record or an
// allocation that was restored since is exempt: the agent may read the allocation from before a move that it does not
// know yet.
func (am *agentModel) checkShared(m *simHost, c resource.ConsumerID) {
	a, owner := m.agent, am.ownerOf[string(c)]
	if !a.placed[c] && !(am.compute.places(m.name, c) && a.confirmed[string(c)]) && !am.rolledBack[owner] &&
		!am.putBack[owner] {
		am.violation(m, "shared: the agent writes an allocation of %s to Placement, and compute does not place it here, "+
			"or has "+
			"not confirmed that", c)
	}
}

// notePlaced notes of which consumers an agent may write allocations, when it reads them.
func (am *agentModel) notePlaced(m *simHost, consumers []resource.ConsumerID) {
	for _, c := range consumers {
		if m.agent != nil {
			m.agent.placed[c] = am.compute.places(m.name, c) && m.agent.confirmed[string(c)]
		}
	}
}

// write performs a write of the journal: all of its entries, or with a fault none or some of the first ones.
func (am *agentModel) write(m *simHost, entries []journal.Entry) error {
	entries = am.brokenEntries(entries)
	if am.chance(Disks, 150) {
		am.report.Happened["journal write failed"]++
		am.writePart(m, entries)
		return fault.New(fault.Unavailable, "the disk does not answer")
	}
	if am.broken == Unwritten && !am.noFailures {
		return nil
	}
	m.disk.state = m.disk.state.With(entries...)
	m.setFound(m.disk.state)
	m.disk.durable = m.disk.followed
	delete(m.agent.followed, m.disk.state.Position())
	return nil
}

// writePart leaves some of the first entries of a write on the disk, perhaps none or all.
func (am *agentModel) writePart(m *simHost, entries []journal.Entry) {
	m.setFound(m.disk.state.With(entries[:am.rng.IntN(len(entries)+1)]...))
}

// brokenEntries returns the entries of a write, without claims if the disk is broken on purpose.
func (am *agentModel) brokenEntries(entries []journal.Entry) []journal.Entry {
	if am.broken != Forgetful {
		return entries
	}
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Claims = nil
	}
	return entries
}
