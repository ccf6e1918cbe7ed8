package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// change replaces the move by a copy and returns the copy, so that the server passed to Next stays unchanged.
func (s *Server) change() *Move {
	m := *s.Move
	s.Move = &m
	return s.Move
}

// ExcludedHosts returns the hosts that must not be chosen, and why: the source of the move, and the hosts of leftovers,
// because a new guest there would get the id of the leftover guest.
func (s Server) ExcludedHosts() map[string]string {
	out := map[string]string{}
	if s.Move != nil && !s.Move.SameHostAllowed {
		out[s.Move.From.Host] = "it is the source of the move"
	}
	for _, l := range s.Leftovers {
		out[l.Host] = "an earlier guest of the server there is not gone yet"
	}
	return out
}

// setMigrationStatus sets the status of the migration as operators see it.
func setMigrationStatus(s Server, now time.Time, status string) Server {
	m := *s.Migration
	m.Status, m.Updated = status, now
	if s.Host != "" {
		m.To = s.Host
	}
	s.Migration = &m
	return s
}

// beginMove starts a move: the server's present residence becomes the source, and its own fields become those of the
// destination.
func beginMove(s Server, kind Kind, e ActionRequested, now time.Time) Server {
	s.Move = &Move{
		Kind: kind, To: e.To, SameHostAllowed: e.SameHost && (kind == Resizing || kind == Migrating),
		Consumer: cmp.Or(s.PreviousConsumer, e.ID), From: s.ownResidence(),
	}
	s.Migration = &Migration{
		ID: e.ID, Kind: kind, Status: "accepted", From: s.Host,
		OldFlavor: s.Flavor.ID, NewFlavor: s.Flavor.ID, Begun: now, Updated: now,
	}
	if kind == Resizing {
		s.Flavor, s.Ask, s.Requests, s.Topology = e.Flavor, e.Request, e.Requests, e.Topology
		s.Migration.NewFlavor = e.Flavor.ID
	}
	s.State, s.Task, s.Round, s.FailedHosts, s.PreRebuild = Planning, "", 0, nil, nil
	s.Host, s.Reported, s.PreviousConsumer, s.Devices, s.Cells, s.Choices = "", false, "", nil, nil, nil
	s.Requests = withProviders(s.Requests, nil)
	return addHistory(s, now, fmt.Sprintf("%s from %s%s: %s",
		kind, s.Move.From.Host, prefixed(" to ", e.To), describe(s.Ask, s.Requests)))
}

// restoreSource ends the move and restores the server's fields from the source.
func restoreSource(s Server) Server {
	from := s.Move.From
	s.State, s.Move, s.Task = Active, nil, ""
	s.Host, s.PreviousConsumer = from.Host, from.PreviousConsumer
	s.Flavor, s.Ask, s.Requests = from.Flavor, from.Ask, from.Requests
	s.Devices, s.Topology, s.Cells, s.Reported, s.Choices = from.Devices, from.Topology, from.Cells, from.Reported, nil
	if from.Choice != nil {
		s.Choices = []schedule.Choice{*from.Choice}
	}
	return s
}

// onAllocationsMoved continues after the server's allocations have been moved to its migration.
func onAllocationsMoved(s Server, now time.Time) Server {
	m := s.change()
	m.AllocationsMoved = true
	m.From.PreviousConsumer, m.From.Consumer = m.From.Consumer, m.Consumer
	m.StopSource = m.Kind == Evacuating // if the source host returns, the guest must not run on both hosts
	s = setMigrationStatus(s, now, "pre-migrating")
	switch {
	case !s.Requested.IsZero():
		return finishDeletion(setMigrationStatus(leaveSource(s), now, "cancelled"), now)
	case m.SourceLost != "":
		return goBack(s, now, m.SourceLost)
	case m.Kind == Evacuating, m.From.Gone:
		return beginClaim(s, now)
	}
	s.State = AwaitingSourceAck
	return addHistory(s, now, fmt.Sprintf("waiting for the agent of %s to acknowledge migration %s",
		m.From.Host, m.Consumer))
}

// onAllocationsRestored continues after the migration's allocations have been moved back to the server.
func onAllocationsRestored(s Server, now time.Time) Server {
	m := *s.Move
	s = restoreSource(s)
	s.PreviousConsumer = m.From.Consumer
	switch {
	case !s.Requested.IsZero() && m.From.Gone:
		s.State = DeletingAllocation
	case !s.Requested.IsZero():
		s.State = DeletingGuest
	case m.SourceLost != "":
		return fail(s, now, Failing, m.SourceLost)
	case m.Reverting:
		s.Task = ResizeReverting
		s = setMigrationStatus(s, now, "reverted")
	case m.StopSource && m.Kind != Evacuating && s.Power == On:
		s.Task = PoweringOn
	}
	return addHistory(s, now, "back on "+s.Host)
}

// MaxRefusals is how often Placement may refuse to restore a server's allocations before the server becomes
// RevertBlocked. With the runner's growing waits this takes about a minute.
const MaxRefusals = 10

// onRestoreRefused counts the refusals of RestoreAllocations. After MaxRefusals the server becomes RevertBlocked: its
// guest exists at the source and the migration holds its devices, so nothing is lost. No action on the server is
// possible until an operator has repaired the cause and reset its state.
func onRestoreRefused(s Server, e StepFailed, now time.Time) Server {
	m := s.change()
	m.Refusals++
	s = addHistory(s, now, fmt.Sprintf("cannot %s now, will try again: %s", e.Step, e.Reason))
	if m.Refusals < MaxRefusals && s.Requested.IsZero() {
		return s
	}
	if !s.Requested.IsZero() { // the migration's allocations are released with the guest
		return finishDeletion(setMigrationStatus(leaveSource(s), now, "cancelled"), now)
	}
	m.Refusals = 0
	if m.Kind != Evacuating { // the guest may run meanwhile
		m.StopSource, m.SourceStopped = false, false
	}
	return fail(s, now, RevertBlocked, fmt.Sprintf("The move cannot be reverted: Placement refuses to move the "+
		"allocations of migration %s on %s back to the server: %s; an operator must repair the provider in Placement "+
		"and then reset the server's state (`openstack server set --state active`).",
		m.From.Consumer, m.From.Host, trimStop(e.Reason)))
}

// retryRestore repeats RestoreAllocations after an operator has reset the state.
func retryRestore(s Server, now time.Time) Server {
	s.State, s.Fault = RestoringAllocations, nil
	return addHistory(s, now, "state reset by an operator: moving the migration's allocations back to the server")
}

// goBack gives up the move: the server returns to its source. text is the reason.
func goBack(s Server, now time.Time, text string) Server {
	m := s.change()
	m.Failed = text
	s = setMigrationStatus(s, now, "error")
	s = addHistory(s, now, fmt.Sprintf("%s It goes back to %s.", text, m.From.Host))
	if m.AllocationsMoved {
		s.State, s.Choices = ReleasingDestination, nil
		return s
	}
	deleted := !s.Requested.IsZero()
	gone, lost := m.From.Gone, m.SourceLost
	s = restoreSource(s)
	switch {
	case deleted && gone:
		s.State = DeletingAllocation
	case deleted:
		s.State = DeletingGuest
	case lost != "":
		return fail(s, now, Failing, lost)
	}
	return s
}

// leaveSource ends the move and turns its source into a leftover.
func leaveSource(s Server) Server {
	s.Leftovers = append(slices.Clone(s.Leftovers), s.Move.From)
	s.Move = nil
	return s
}

// onArrived continues after the guest exists on its host in the desired power state.
func onArrived(s Server, now time.Time, stopped bool) Server {
	s.State, s.Stopped, s.Shelved, s.Fault = Active, stopped, false, nil
	if s.Launched.IsZero() {
		s.Launched = now
	}
	word := "runs"
	if stopped {
		word = "exists, stopped,"
	}
	s = addHistory(s, now, fmt.Sprintf("the guest %s on %s", word, s.Host))
	switch m := s.Move; {
	case m == nil:
		return s
	case m.Kind == Evacuating, m.Kind == LiveMigration:
		return leaveSource(setMigrationStatus(s, now, "completed"))
	case m.From.Gone:
		return confirm(s, now)
	}
	s.State = Resized
	return setMigrationStatus(s, now, "finished")
}

// confirm ends the move; the source becomes a leftover.
func confirm(s Server, now time.Time) Server {
	from := s.Move.From.Host
	s = leaveSource(setMigrationStatus(s, now, "confirmed"))
	s.State = Active
	return addHistory(s, now, "move confirmed; removing the guest on "+from)
}

// revert starts the return to the source; the guest at the destination is removed first.
func revert(s Server, now time.Time) Server {
	s.State, s.change().Reverting = Reverting, true
	s = setMigrationStatus(s, now, "reverting")
	return addHistory(s, now, "reverting the move; removing the guest on "+s.Host)
}

// onHostDead records that nothing of the server is left on a dead host. The event is repeated as long as the host is
// declared dead.
func onHostDead(s Server, host string, now time.Time) Server {
	if slices.ContainsFunc(s.Leftovers, func(l Residence) bool { return l.Host == host && !l.Gone }) {
		s.Leftovers = slices.Clone(s.Leftovers)
		for i := range s.Leftovers {
			s.Leftovers[i].Gone = s.Leftovers[i].Gone || s.Leftovers[i].Host == host
		}
		s = addHistory(s, now, "host "+host+" declared dead by an operator; releasing the leftover there")
	}
	if s.Move != nil && s.Move.From.Host == host && !s.Move.From.Gone {
		s.change().From.Gone = true
		s = addHistory(s, now, "host "+host+", the source of the move, declared dead by an operator")
		s = onSourceDead(s, now)
	}
	if s.AllocatedHost() != host {
		return s
	}
	const dead = "declared dead by an operator"
	switch s.State {
	case DeletingGuest, Shelving, Reverting:
		return onGuestGone(s, dead, now)
	case AwaitingMinCount, StoppingSource, PreLiveMigration, Spawning:
		return reschedule(s, dead, now)
	case LiveMigrating:
		return goBack(s, now, "The live migration failed: host "+host+" was declared dead by an operator.")
	}
	return s // Active, Resized: an operator may evacuate the server, a user may revert its move
}

// onSourceDead continues without the source, whose agent will not report any more.
func onSourceDead(s Server, now time.Time) Server {
	switch s.State {
	case AwaitingSourceAck:
		s.Choices = slices.DeleteFunc(slices.Clone(s.Choices), func(c schedule.Choice) bool {
			return c.Host == s.Move.From.Host
		})
		switch {
		case len(s.Choices) > 0:
			return beginClaim(s, now)
		case s.Round < MaxRounds:
			s.State = Scheduling
			return addHistory(s, now, "the chosen host is dead; requesting candidates again")
		}
		return giveUp(s, now, "the chosen host "+s.Move.From.Host+" is dead", false)
	case StoppingSource, PreLiveMigration, LiveMigrating:
		s.State = Spawning
		return addHistory(s, now, "waiting for the agent of "+s.Host+" to build the guest")
	case Resized:
		return confirm(s, now)
	}
	return s
}
