package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/pci"
)

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

// journalHolder returns the consumer that the journal of a machine gives a device to; empty if there is none.
func (m *simHost) journalHolder(at pci.Address) string {
	for _, c := range m.disk.found.Claims() {
		if c.Device.Address == at {
			return string(c.Holder)
		}
	}
	return ""
}

// setFound replaces what the next process finds. What a failed write has left may be gone after the next write.
func (m *simHost) setFound(state journal.State) {
	m.disk.found, m.disk.followed = state, m.disk.durable
	if followed, known := m.agent.followed[state.Position()]; known {
		m.disk.followed = followed
	}
}
