package sim

import (
	"maps"
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

// setFound replaces what the next process finds. What a failed write has left may be gone after the next write.
func (m *simHost) setFound(state journal.State) {
	m.disk.found, m.disk.followed = state, m.disk.durable
	if followed, known := m.agent.followed[state.Position()]; known {
		m.disk.followed = followed
	}
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

// change appends entries to the journal of a machine whose agent does not run, as the commands of an operator do.
func (d *disk) change(entries ...journal.Entry) {
	d.found = d.found.With(entries...)
	d.state = d.found
}

// known lists the ids that the journal or the hypervisor has, in order.
func (m *simHost) known() []string {
	all := map[string]bool{}
	for _, id := range slices.Concat(m.disk.found.Servers(), m.disk.found.Gone()) {
		all[id] = true
	}
	for id := range m.guests {
		all[id] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// journalID returns the id under which the journal has a guest: the new one while a rename is unfinished.
func (m *simHost) journalID(id string) string {
	renames := m.disk.found.Renames()
	for _, now := range slices.Sorted(maps.Keys(renames)) {
		if renames[now].Was == id && !renames[now].Done {
			return now
		}
	}
	return id
}
