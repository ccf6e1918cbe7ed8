package sim

import (
	"slices"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/fault"
)

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
