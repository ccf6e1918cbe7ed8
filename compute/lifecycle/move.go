package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// change gives the move to be changed: a copy, so that the server given to Next stays as it was.
func (s *Server) change() *Move {
	m := *s.Move
	s.Move = &m
	return s.Move
}

// Bars are the hosts where the server must not be put, and why: one that it is to leave, and those where it has left something under
// a name that its guest would have there again.
func (s Server) ExcludedHosts() map[string]string {
	out := map[string]string{}
	if s.Move != nil && !s.Move.SameHostAllowed {
		out[s.Move.From.Host] = "it is the host that the server is to leave"
	}
	for _, l := range s.Leftovers {
		out[l.Host] = "the server has left something there that is not gone yet"
	}
	return out
}

// tell writes what operators are told of the move.
func setMigrationStatus(s Server, now time.Time, status string) Server {
	m := *s.Migration
	m.Status, m.Updated = status, now
	if s.Host != "" {
		m.To = s.Host
	}
	s.Migration = &m
	return s
}

// plan begins a move: what the server has is put aside as the source, and its own fields become those of the destination.
func plan(s Server, kind Kind, e ActionRequested, now time.Time) Server {
	s.Move = &Move{Kind: kind, To: e.To, SameHostAllowed: e.SameHost && (kind == Resizing || kind == Migrating), Consumer: cmp.Or(s.PreviousConsumer, e.ID), From: s.own()}
	s.Migration = &Migration{ID: e.ID, Kind: kind, Status: "accepted", From: s.Host, OldFlavor: s.Flavor.ID, NewFlavor: s.Flavor.ID,
		Begun: now, Updated: now}
	if kind == Resizing {
		s.Flavor, s.Ask, s.Requests, s.Topology = e.Flavor, e.Request, e.Requests, e.Topology
		s.Migration.NewFlavor = e.Flavor.ID
	}
	s.State, s.Task, s.Round, s.FailedHosts, s.PreRebuild = Planning, "", 0, nil, nil
	s.Host, s.Reported, s.PreviousConsumer, s.Devices, s.Cells, s.Choices = "", false, "", nil, nil, nil
	s.Requests = serve(s.Requests, nil)
	return addHistory(s, now, fmt.Sprintf("%s away from %s%s: %s", kind, s.Move.From.Host, also(", to ", e.To), describe(s.Ask, s.Requests)))
}

// unplan puts the server back to what it had before the move.
func unplan(s Server) Server {
	from := s.Move.From
	s.State, s.Move, s.Task = Active, nil, ""
	s.Host, s.PreviousConsumer, s.Flavor, s.Ask, s.Requests = from.Host, from.PreviousConsumer, from.Flavor, from.Ask, from.Requests
	s.Devices, s.Topology, s.Cells, s.Reported, s.Choices = from.Devices, from.Topology, from.Cells, from.Reported, nil
	if from.Choice != nil {
		s.Choices = []schedule.Choice{*from.Choice}
	}
	return s
}

// rekeyed goes on when the migration holds what the server held.
func rekeyed(s Server, now time.Time) Server {
	m := s.change()
	m.AllocationsMoved = true
	m.From.PreviousConsumer, m.From.Consumer = m.From.Consumer, m.Consumer
	m.StopSource = m.Kind == Evacuating // should its host return meanwhile, the guest must not run twice
	s = setMigrationStatus(s, now, "pre-migrating")
	switch {
	case !s.Requested.IsZero():
		return finish(setMigrationStatus(leave(s), now, "cancelled"), now)
	case m.SourceLost != "":
		return goBack(s, now, m.SourceLost)
	case m.Kind == Evacuating, m.From.Gone:
		return try(s, now)
	}
	s.State = AwaitingSourceAck
	return addHistory(s, now, fmt.Sprintf("the agent of %s is to know of migration %s", m.From.Host, m.Consumer))
}

// restored goes on when the server holds again what its migration held.
func restored(s Server, now time.Time) Server {
	m := *s.Move
	s = unplan(s)
	s.PreviousConsumer = m.From.Consumer
	switch {
	case !s.Requested.IsZero() && m.From.Gone:
		s.State = DeletingAllocation
	case !s.Requested.IsZero():
		s.State = DeletingGuest
	case m.SourceLost != "":
		return fail(s, now, Failing, m.SourceLost)
	case m.Reverting:
		s.Task = TakingBack
		s = setMigrationStatus(s, now, "reverted")
	case m.StopSource && m.Kind != Evacuating && s.Power == On:
		s.Task = PoweringOn
	}
	return addHistory(s, now, "is back on "+s.Host)
}

// MaxDenied is how often Placement may refuse to give a server back what its migration holds: with growing waits, about a minute long.
const MaxRefusals = 10

// deny counts that Placement refuses what the way back needs. After MaxDenied the server is left where it is: its guest is there, and its
// devices are held by the migration, so that nobody loses anything; but nothing can be done with it until an operator has seen to it.
func onRestoreRefused(s Server, e StepFailed, now time.Time) Server {
	m := s.change()
	m.Refusals++
	s = addHistory(s, now, fmt.Sprintf("cannot %s now, will try again: %s", e.Step, e.Reason))
	if m.Refusals < MaxRefusals && s.Requested.IsZero() {
		return s
	}
	if !s.Requested.IsZero() { // it need not be the server's any more: what the migration holds goes with the guest
		return finish(setMigrationStatus(leave(s), now, "cancelled"), now)
	}
	m.Refusals = 0
	if m.Kind != Evacuating { // it need not stand still for that
		m.StopSource, m.SourceStopped = false, false
	}
	return fail(s, now, RevertBlocked, fmt.Sprintf("The server is on %s, but Placement does not give it back what migration %s holds there for it: %s. "+
		"Let an operator see to that provider in Placement, and then reset the server's state (`openstack server set --state active`): it is tried again.",
		m.From.Host, m.From.Consumer, bare(e.Reason)))
}

// retry begins the way back anew, as an operator wishes.
func retry(s Server, now time.Time) Server {
	s.State, s.Fault = RestoringAllocations, nil
	return addHistory(s, now, "an operator has seen to it: what the migration holds is to be the server's again")
}

// back gives a move up: the server goes back to its source. text is why.
func goBack(s Server, now time.Time, text string) Server {
	m := s.change()
	m.Failed = text
	s = setMigrationStatus(s, now, "error")
	s = addHistory(s, now, fmt.Sprintf("%s It goes back to %s.", text, m.From.Host))
	if m.AllocationsMoved {
		s.State, s.Choices = ReleasingDestination, nil
		return s
	}
	doomed := !s.Requested.IsZero()
	gone, lost := m.From.Gone, m.SourceLost
	s = unplan(s)
	switch {
	case doomed && gone:
		s.State = DeletingAllocation
	case doomed:
		s.State = DeletingGuest
	case lost != "":
		return fail(s, now, Failing, lost)
	}
	return s
}

// leave makes the source of a move something that is left behind.
func leave(s Server) Server {
	s.Leftovers = append(slices.Clone(s.Leftovers), s.Move.From)
	s.Move = nil
	return s
}

// arrive ends the way to a host: the guest is there.
func onArrived(s Server, now time.Time, stopped bool) Server {
	s.State, s.Stopped, s.Shelved, s.Fault = Active, stopped, false, nil
	if s.Launched.IsZero() {
		s.Launched = now
	}
	word := "runs"
	if stopped {
		word = "is there, stopped,"
	}
	s = addHistory(s, now, fmt.Sprintf("the guest %s on %s", word, s.Host))
	switch m := s.Move; {
	case m == nil:
		return s
	case m.Kind == Evacuating, m.Kind == LiveMigration:
		return leave(setMigrationStatus(s, now, "completed"))
	case m.From.Gone:
		return confirm(s, now)
	}
	s.State = Resized
	return setMigrationStatus(s, now, "finished")
}

// confirm lets go of the source.
func confirm(s Server, now time.Time) Server {
	from := s.Move.From.Host
	s = leave(setMigrationStatus(s, now, "confirmed"))
	s.State = Active
	return addHistory(s, now, "the move is confirmed; what was on "+from+" is to go")
}

// revert takes the guest away from where it went.
func revert(s Server, now time.Time) Server {
	s.State, s.change().Reverting = Reverting, true
	s = setMigrationStatus(s, now, "reverting")
	return addHistory(s, now, "the move is reverted; what is on "+s.Host+" is to go")
}

// bury takes note that a host is dead: nothing of the server is there any more. It comes again and again as long as the host is.
func onHostDead(s Server, host string, now time.Time) Server {
	if slices.ContainsFunc(s.Leftovers, func(l Residence) bool { return l.Host == host && !l.Gone }) {
		s.Leftovers = slices.Clone(s.Leftovers)
		for i := range s.Leftovers {
			s.Leftovers[i].Gone = s.Leftovers[i].Gone || s.Leftovers[i].Host == host
		}
		s = addHistory(s, now, "an operator says that host "+host+" is dead: what was left there is free")
	}
	if s.Move != nil && s.Move.From.Host == host && !s.Move.From.Gone {
		s.change().From.Gone = true
		s = addHistory(s, now, "an operator says that host "+host+", from which it moves, is dead")
		s = alone(s, now)
	}
	if s.AllocatedHost() != host {
		return s
	}
	const dead = "an operator says that the host is dead"
	switch s.State {
	case DeletingGuest, Shelving, Reverting:
		return vanished(s, dead, now)
	case AwaitingMinCount, StoppingSource, PreLiveMigration, Spawning:
		return reschedule(s, dead, now)
	case LiveMigrating:
		return goBack(s, now, "The live migration failed: "+host+" is dead, says an operator.")
	}
	return s // Active, Resized: it may be evacuated, or reverted
}

// alone goes on without the source: nobody is there who would answer.
func alone(s Server, now time.Time) Server {
	switch s.State {
	case AwaitingSourceAck:
		s.Choices = slices.DeleteFunc(slices.Clone(s.Choices), func(c schedule.Choice) bool { return c.Host == s.Move.From.Host })
		switch {
		case len(s.Choices) > 0:
			return try(s, now)
		case s.Round < MaxRounds:
			s.State = Scheduling
			return addHistory(s, now, "it was to stay on that host; asks again")
		}
		return giveUp(s, now, "it was to stay on host "+s.Move.From.Host+", which is dead", false)
	case StoppingSource, PreLiveMigration, LiveMigrating:
		s.State = Spawning
		return addHistory(s, now, "the agent of "+s.Host+" is to build the guest")
	case Resized:
		return confirm(s, now)
	}
	return s
}
