package reconcile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
)

// accept reports whether the agent follows these assignments: they are of the cloud whose guests the agent has, and do
// not precede the newest ones that it followed. It records the new position, which is therefore durable before any
// effect that follows from them. Assignments that are not followed change nothing, and a condition gives the reason.
func (s *stream) accept(a host.Assignments) bool {
	refusal := s.otherCloud(a)
	if slices.ContainsFunc(a.Servers, func(server host.Server) bool { return server.ID == "" }) {
		refusal = "the assignments have a server without an id, so they are not followed; look for faults in compute's log"
	}
	if refusal == "" {
		if refusal = s.position().Accept(a); refusal != "" {
			refusal += "; its assignments are not followed, and guests stay as they are: restore the newest database, " +
				"or stop the agent and run `berth agent adopt`, which shows first what would change"
		}
	}
	s.setNotFollowed(refusal)
	if refusal != "" {
		return false
	}
	id, _ := s.State.Identity()
	if a.Cloud != "" && id.Cloud == "" {
		id.Cloud = a.Cloud
		s.WriteIdentity(id)
	}
	if a.Position != s.position() {
		s.Record(journal.Position(a.Position).Entry())
	}
	return true
}

// otherCloud returns why assignments are not of the cloud that this agent follows; empty when they are.
func (s *stream) otherCloud(a host.Assignments) string {
	id, _ := s.State.Identity()
	if a.Cloud == "" || a.Cloud == id.Cloud || id.Cloud == "" {
		return ""
	}
	return fmt.Sprintf("the assignments are those of another cloud (%s) than this host's guests (%s), so they are not "+
		"followed: if compute's database was lost or this host has moved, stop the agent and run `berth agent adopt`",
		a.Cloud, id.Cloud)
}

// setNotFollowed records why the assignments are not followed; empty when they are.
func (s *stream) setNotFollowed(why string) {
	if why == "" {
		s.Condition(condition.Assignments, "")
	} else {
		s.Condition(condition.Assignments, "", why)
	}
	if s.NotFollowed != why {
		s.NotFollowed, s.Wake = why, true
		s.ReportChanged()
	}
}

// follow replaces the assignments by accepted ones, and forgets what was recorded of others. first: they are the first
// ones since the start.
func (s *stream) follow(a host.Assignments) (first bool) {
	next := state.Assignments{Received: true, Heartbeats: s.Assignments.Heartbeats + 1, ReceivedAt: s.Now,
		Position: a.Position, Servers: make(map[string]host.Server, len(a.Servers)),
		Remove: make(map[string]host.Removal, len(a.Remove))}
	for _, one := range a.Servers {
		next.Servers[one.ID] = one
	}
	for _, r := range a.Remove {
		if _, wanted := next.Servers[r.ID]; !wanted {
			next.Remove[r.ID] = r
		}
	}
	s.reverseRenames(next)
	before := s.Assignments.Position
	restarted := before.Epoch != next.Position.Epoch || before.EpochID != next.Position.EpochID
	if restarted || s.reconnected && before != next.Position {
		// A restored database may lack these reports. And while no stream was open, another agent may have served the host:
		// a server may have left the host and returned with an equal assignment, and compute expects new reports then.
		s.Acked, s.Confirmed = map[string]state.Outcome{}, map[string]host.Server{}
	}
	s.reconnected = false
	s.forgetOthers(next)
	if next.Position != s.Assignments.Position {
		s.forgetUnrecordedRenames(next)
	}
	first = !s.Assignments.Received
	s.Assignments = next
	s.forgetRenames()
	s.Wake = true
	if first {
		s.WantSync = true // missing allocations can be written now
		s.ReportChanged() // the report can now name the assigned guests
	}
	return first
}

// reverseRenames adds a former id to entries whose guest this agent has given another id, or is giving one, although
// the assignments have it by the old id again. Compute does not say so if a report of before that rename, which was on
// its way, has answered a second move with the same ids.
func (s *stream) reverseRenames(next state.Assignments) {
	renames := s.State.Renames()
	for _, id := range slices.Sorted(maps.Keys(renames)) {
		r := renames[id]
		want, wanted := next.Servers[r.Was]
		_, mentioned := next.Servers[id]
		_, removed := next.Remove[id]
		if !wanted || want.PreviousID != "" || mentioned || removed {
			continue
		}
		_, occupied := s.State.Of(r.Was)
		_, exists := s.Guests[r.Was]
		if _, moved := s.State.Of(id); moved && !occupied && exists == !r.Done {
			want.PreviousID = id
			next.Servers[r.Was] = want
		}
	}
}

// forgetOthers deletes what is recorded of servers and removals that the next assignments do not name.
func (s *stream) forgetOthers(next state.Assignments) {
	for _, known := range []map[string]state.Outcome{s.Acked, s.UnreportedFailures} {
		maps.DeleteFunc(known, func(id string, _ state.Outcome) bool { _, still := next.Servers[id]; return !still })
	}
	maps.DeleteFunc(s.Confirmed, func(id string, was host.Server) bool {
		return !was.Equal(next.Servers[id])
	})
	maps.DeleteFunc(s.NewlyClaimed, func(id string, _ bool) bool { _, still := s.Confirmed[id]; return !still })
	maps.DeleteFunc(s.ReportedRemovals, func(id string, _ state.RemovalVersion) bool {
		_, still := next.Remove[id]
		return !still
	})
}

// forgetUnrecordedRenames makes the agent report renamed guests again if later assignments still have their former ids:
// compute removes a former id when it records the report under the new id. If it has begun another move since, the
// agent may have missed the assignments in between, and those of both moves are equal.
func (s *stream) forgetUnrecordedRenames(next state.Assignments) {
	maps.DeleteFunc(s.Acked, func(id string, last state.Outcome) bool {
		built := last.Phase == host.Running || last.Phase == host.Stopped || last.Phase == host.Departed
		return built && next.Servers[id].PreviousID != ""
	})
}

// forgetRenames deletes finished renames that the assignments no longer mention.
func (s *stream) forgetRenames() {
	renames := s.State.Renames()
	for _, id := range slices.Sorted(maps.Keys(renames)) {
		r := renames[id]
		reversed := s.Assignments.Servers[r.Was].PreviousID == id
		if want, wanted := s.Assignments.Servers[id]; r.Done && !reversed && (!wanted || want.PreviousID != r.Was) {
			s.Record(journal.RenameForgotten(id))
		}
	}
}
