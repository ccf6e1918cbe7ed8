package sync

import (
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// holderStates returns a function that reports to treeplan which missing allocations it may write. A missing
// allocation may be part of a move: compute first transfers the allocations to the migration and changes the
// assignments a moment later.
//
// An allocation is therefore written only for a server whose assignment compute has confirmed, and only in one of
// two cases: the server has just claimed its devices (fresh), when no move can be in progress; or the allocation was
// missing at two syncs under the same assignment, with a message of assignments between them. Other servers of the
// host may be added and removed meanwhile. An agent that receives no assignments writes nothing: its assignments may
// be outdated, and the missing allocation may belong to another host.
func (s *Syncer) holderStates(fresh map[string]bool,
	missing map[resource.ConsumerID]missingAllocation) func(resource.ConsumerID) treeplan.HolderState {
	l, disconnected := s.Assignments, outdated(s.Core)
	return func(consumer resource.ConsumerID) treeplan.HolderState {
		want, wanted := l.Servers[string(consumer)]
		known, is := s.Confirmed[string(consumer)]
		before, lacked := missing[consumer]
		switch {
		case disconnected:
			return treeplan.Pending
		case !wanted:
			return treeplan.Unassigned
		case !is || !known.Equal(want):
			return treeplan.Pending
		case fresh[string(consumer)] ||
			lacked && before.heartbeats != l.Heartbeats && before.want.Equal(want):
			return treeplan.Assigned
		}
		return treeplan.Moving
	}
}

// lowerStates lowers the states of consumers whose assignment has changed since the plan was begun: a message of
// assignments may come while Placement is read.
func (d planning) lowerStates(stateOf func(resource.ConsumerID) treeplan.HolderState) {
	for consumer, e := range d.aim.Expected {
		e.State = max(e.State, stateOf(consumer))
		d.aim.Expected[consumer] = e
	}
}

// stillMissing returns which servers have a missing allocation at this sync; before are those of the last one. Whether
// the plan writes it was decided when the plan was begun: a message of assignments since then does not count.
func (d planning) stillMissing(l state.Assignments,
	before map[resource.ConsumerID]missingAllocation) map[resource.ConsumerID]missingAllocation {
	out := map[resource.ConsumerID]missingAllocation{}
	for _, consumer := range treeplan.Lacking(d.aim, d.uses) {
		want := l.Servers[string(consumer)]
		was, known := before[consumer]
		out[consumer] = missingAllocation{want: want, heartbeats: l.Heartbeats,
			seenTwice: known && was.want.Equal(want) && was.heartbeats != d.heartbeats}
	}
	return out
}

// outdated reports whether the assignments of the agent may be outdated.
func outdated(c *state.Core) bool {
	l := c.Assignments
	return !l.Received || c.NotFollowed != "" || c.Now.Sub(l.ReceivedAt) > 3*host.Heartbeat
}

// refuseReshape returns why allocations must not be written while the assignments may be outdated: compute may have
// placed a consumer on another host since they were read. Placement does not refuse that, because the generations of a
// consumer begin again when its allocation is deleted and another one is claimed.
func refuseReshape(step treeplan.Step) error {
	if len(step.Allocations) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "allocations of %d guests are not changed: no assignments from compute for %s, so "+
		"they may have changed; the agent tries again when it is connected", len(step.Allocations), 3*host.Heartbeat)
}
