package sim

import (
	"testing"

	"github.com/openberth/berth/agent/journal"
)

// A failed write may leave the position of assignments that the agent has followed, and a later write may remove it.
// Then the next process has not followed these assignments.
func TestFailedWriteDoesNotCountAsFollowed(t *testing.T) {
	w := newWorld(Options{Seed: 1, Hosts: 24, Without: []string{Ports}})
	w.quiesce()
	m := w.hosts[0]
	before, position := m.disk.followed, journalPosition{Epoch: 9, EpochID: "e9", Revision: 9}
	m.agent.followed[position] = stamp{9, 9}
	m.setFound(m.disk.state.With(position.Entry())) // what a failed write leaves
	if m.disk.followed != (stamp{9, 9}) {
		t.Errorf("after a failed write: %v", m.disk.followed)
	}
	m.setFound(m.disk.state)
	if m.disk.followed != before {
		t.Errorf("after its entries are gone: %v, not %v", m.disk.followed, before)
	}
	w.noFailures = true
	if err := w.agents.write(m, []journal.Entry{position.Entry()}); err != nil || m.disk.followed != (stamp{9, 9}) {
		t.Errorf("after a write: %v %v", m.disk.followed, err)
	}
	if m.setFound(m.disk.state); m.disk.followed != (stamp{9, 9}) {
		t.Errorf("after the next write: %v", m.disk.followed)
	}
}
