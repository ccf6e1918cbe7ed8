package lifecycle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
)

// guestReport is what an agent reports about a guest.
type guestReport struct {
	phase          string
	host, consumer string
	devices        []schedule.Picked
	cells          []numa.Placed
	build          int
	message        string
	stopped        bool // with phase refused
}

// Expects reports whether the assignments of a host contain a guest of this consumer.
func (s Server) Expects(consumer, host string) bool {
	return slices.ContainsFunc(s.Entries(), func(e Entry) bool { return e.Consumer == consumer && e.Host == host })
}

// maxReports is how many entries LastReports keeps. An agent's entry is removed after as many other agents have
// reported the server since.
const maxReports = 16

// onReport applies the event of a report unless it is older than the agent's last report about any guest of the server.
// All guests count because an older report may name the guest by an earlier id.
func onReport(s Server, e Report, now time.Time) (Server, bool) {
	if e.Number <= s.Latest(e.Host, e.Instance) {
		return s, isDefined(e.Event)
	}
	s, known := transition(s, e.Event, now)
	s.LastReports = slices.DeleteFunc(slices.Clone(s.LastReports), func(r LastReport) bool {
		return r.Host == e.Host && r.Instance == e.Instance
	})
	s.LastReports = append(s.LastReports, LastReport{Host: e.Host, Instance: e.Instance, Number: e.Number})
	s.LastReports = s.LastReports[max(0, len(s.LastReports)-maxReports):]
	return s, known
}

// Latest returns the number of the last report about the server from an agent instance of the host; 0 if there is none.
func (s Server) Latest(host, instance string) int64 {
	for _, v := range s.LastReports {
		if v.Host == host && v.Instance == instance {
			return v.Number
		}
	}
	return 0
}

// applyReport applies the report to the residence that it concerns. A report about any other residence is late and is
// ignored.
func applyReport(s Server, g guestReport, now time.Time) Server {
	if g.consumer == "" {
		g.consumer = s.ID
	}
	// it may be removed before its agent receives the new id
	mine := g.consumer == s.ID || g.consumer == s.PreviousConsumer && g.phase == "gone"
	if mine && g.host != "" && g.host == s.AllocatedHost() {
		return ownGuest(s, g, now)
	}
	if m := s.Move; m != nil && m.From.Host == g.host {
		deleted := !s.Requested.IsZero() && g.consumer == m.From.PreviousConsumer &&
			(g.phase == "gone" || g.phase == "failed")
		if g.consumer == m.From.Consumer || deleted {
			return sourceGuest(s, g, now)
		}
	}
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool {
		return l.Host == g.host && !l.Gone && (g.consumer == l.Consumer || g.consumer == l.PreviousConsumer)
	})
	if i < 0 {
		return s
	}
	s.Leftovers = slices.Clone(s.Leftovers)
	switch {
	case g.phase == "gone":
		// not "failed": a live migration may have failed; the agent removes the guest and reports it
		s.Leftovers[i].Gone = true
		s = addHistory(s, now, "the leftover guest on "+g.host+" is gone")
	case g.consumer == s.Leftovers[i].Consumer: // the agent knows the guest by the new id
		s.Leftovers[i].PreviousConsumer = ""
	}
	return s
}

// ownGuest applies a report about the guest of the server's own consumer on AllocatedHost.
func ownGuest(s Server, g guestReport, now time.Time) Server {
	switch g.phase {
	case "gone":
		return onGuestGone(s, "", now)
	case "failed":
		return onGuestFailed(s, g.message, now)
	case "departed":
		return s // this guest is not a source
	case "refused":
		return onGuestRefused(s, g, now)
	}
	s = recordBuilds(s, g)
	switch s.State {
	case PreLiveMigration, LiveMigrating:
		s = recordDevices(s, g, now)
		switch {
		case g.phase == "running":
			// the guest has arrived; a record restored from a backup may still have an earlier state
			s = onArrived(s, now, false)
		case s.State == PreLiveMigration && g.phase == "claimed":
			s.State = LiveMigrating
			s = addHistory(s, now, fmt.Sprintf("waiting for the agent of %s to migrate the guest to %s",
				s.Move.From.Host, s.Host))
		}
	case Spawning:
		s = recordDevices(s, g, now)
		if g.phase == "running" && s.Power == On || g.phase == "stopped" && s.Power == Off {
			s = onArrived(s, now, g.phase == "stopped")
		}
	case Active, Resized:
		s = recordDevices(s, g, now)
		s.PreviousConsumer = "" // the agent knows the guest by the server's id
		if g.phase != "claimed" {
			s = settleTask(s, g, now)
		}
	}
	return s // in other states the guest is not assigned: the report is late
}

// recordBuilds sets Builds if the guest has been rebuilt more often than the record says, as after a restore from a
// backup. A rebuild in progress then gets the next number, because an agent ignores a build number that it has done.
func recordBuilds(s Server, g guestReport) Server {
	if g.build <= s.Builds {
		return s
	}
	if s.Builds = g.build; s.Task == Rebuilding {
		s.Builds++
	}
	return s
}

// onGuestRefused gives up the requested action because the hypervisor refuses it: the actual state of the guest becomes
// the desired one. Refusal contains the reason for the user, who may repeat the action.
func onGuestRefused(s Server, g guestReport, now time.Time) Server {
	switch s.State {
	case PreLiveMigration, LiveMigrating: // only the devices matter here
		return recordDevices(s, g, now)
	case Spawning, Active, Resized:
		s = recordDevices(s, g, now)
	default:
		return s // late
	}
	what := "started"
	switch {
	case s.Task == Rebuilding || g.build != s.Builds:
		what = "rebuilt"
	case !g.stopped:
		what = "stopped"
	}
	if u := s.PreRebuild; u != nil && g.build != s.Builds { // the guest has not been rebuilt
		s.Name, s.Image, s.ImageSnapshot, s.Ask = u.Name, u.Image, u.ImageSnapshot, u.Ask
	}
	s.PreviousConsumer, s.Task, s.Stopped, s.Builds, s.Power, s.PreRebuild = "", "", g.stopped, g.build, On, nil
	if g.stopped {
		s.Power = Off
	}
	if s.State == Spawning {
		s = onArrived(s, now, g.stopped)
	}
	text := fmt.Sprintf("The guest cannot be %s on %s: %s; it is unchanged. Correct the cause and repeat the action.",
		what, g.host, trimStop(g.message))
	s.Refusal = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}

// settleTask ends the task in progress if the report shows that it is done.
func settleTask(s Server, g guestReport, now time.Time) Server {
	stopped := g.phase == "stopped"
	was := s.Task
	switch s.Task {
	case Rebooting, RebootingHard:
		if !stopped {
			return s // late: from before the task
		}
		s.Task = RebootStarted
		if was == RebootingHard {
			s.Task = RebootStartedHard
		}
	case Rebuilding:
		if g.build != 0 && g.build != s.Builds || stopped != (s.Power == Off) {
			return s // late: about the guest before the rebuild
		}
		s.Task, s.Fault, s.PreRebuild = "", nil, nil
	case "":
	default:
		if stopped != (s.Power == Off) {
			return s // late
		}
		if s.Task = ""; was == RebootStarted || was == RebootStartedHard {
			s.Fault = nil
		}
	}
	if s.Stopped == stopped && s.Task == was {
		return s
	}
	s.Stopped = stopped
	word := "runs"
	if stopped {
		word = "has stopped"
	}
	return addHistory(s, now, fmt.Sprintf("the guest %s on %s", word, s.Host))
}

// onGuestGone continues after the guest on AllocatedHost is gone. An assigned guest is rebuilt by its agent.
func onGuestGone(s Server, why string, now time.Time) Server {
	switch s.State {
	case DeletingGuest:
		s.State = DeletingAllocation
	case Shelving:
		s.State = Offloading
	case Reverting:
		s.State = ReleasingDestination
	default:
		return s
	}
	return addHistory(s, now, "the guest on "+s.Host+" is gone"+prefixed(": ", why))
}

// onGuestFailed continues after the guest on AllocatedHost could not be built or kept. Nothing of it is left there.
func onGuestFailed(s Server, message string, now time.Time) Server {
	text := fmt.Sprintf("%s: %s", s.Host, message)
	switch s.State {
	case Spawning, PreLiveMigration:
		return reschedule(s, message, now)
	case Active:
		// The guest has run and may have had data, so it is not rebuilt elsewhere.
		s = addHistory(s, now, fmt.Sprintf("the guest failed on %s: %s", s.Host, message))
		s.Task = ""
		return fail(s, now, Failing, "The server failed on "+trimStop(text)+".")
	case Resized:
		return goBack(s, now, "The guest failed before its move was confirmed: "+trimStop(text)+".")
	case LiveMigrating:
		return goBack(s, now, "The live migration failed on "+trimStop(text)+".")
	}
	return onGuestGone(s, "", now)
}

// sourceGuest applies a report about the guest at the source of a move.
func sourceGuest(s Server, g guestReport, now time.Time) Server {
	refused := g.phase == "refused"
	if refused {
		g.phase = "running"
		if g.stopped {
			g.phase = "stopped"
		}
	}
	exists := g.phase != "gone" && g.phase != "failed"
	if exists && g.consumer == s.Move.From.Consumer && s.Move.AllocationsMoved && s.Move.From.PreviousConsumer != "" {
		s.change().From.PreviousConsumer = "" // the agent knows the guest by its new id
	}
	switch g.phase {
	case "claimed", "running", "stopped":
		m := s.change()
		m.From.Devices, m.From.Cells, m.From.Reported = slices.Clone(g.devices), slices.Clone(g.cells), true
		if g.phase != "claimed" { // an earlier action may have stopped the guest; it may run again later
			m.SourceStopped = g.phase == "stopped"
		}
		if !m.AllocationsMoved && g.phase != "claimed" { // if the move is given up, this is the state of the server
			s.Stopped = g.phase == "stopped"
		}
		if s.State == AwaitingSourceAck {
			return beginClaim(s, now)
		}
		if refused && m.StopSource && !m.SourceStopped { // the agent reports this once
			text := fmt.Sprintf("The guest cannot be stopped on %s: %s.", m.From.Host, trimStop(g.message))
			switch s.State {
			case StoppingSource, Rescheduling, Scheduling, Claiming:
				return goBack(s, now, text)
			}
			return addHistory(s, now, text)
		}
		if s.State == StoppingSource && m.SourceStopped {
			s.State = Spawning
			s = setMigrationStatus(s, now, "post-migrating")
			return addHistory(s, now, fmt.Sprintf(
				"the guest on %s has stopped; waiting for the agent of %s to build it", m.From.Host, s.Host))
		}
	case "departed":
		if s.State == LiveMigrating {
			from := s.Move.From.Host
			s = leaveSource(setMigrationStatus(s, now, "completed"))
			s.State, s.Task = Active, MigratingLive
			return addHistory(s, now, fmt.Sprintf("the guest has migrated from %s to %s", from, s.Host))
		}
	case "failed":
		return onSourceFailed(s, g.message, now)
	case "gone":
		if !s.Requested.IsZero() {
			s.change().From.Gone = true
		} // otherwise the agent rebuilds the guest, because it is assigned
	}
	return s
}

// onSourceFailed continues after the live migration failed at the source, or the guest at the source was lost.
func onSourceFailed(s Server, message string, now time.Time) Server {
	text := fmt.Sprintf("%s: %s", s.Move.From.Host, message)
	if s.State == LiveMigrating { // the guest runs at the source as before
		s = goBack(s, now, "The live migration failed on "+trimStop(text)+".")
		s.State = Reverting // the devices at the destination are claimed
		return s
	}
	if s.Move.Kind == LiveMigration && s.Move.Failed != "" {
		return s // a repeated report
	}
	m := s.change()
	m.From.Gone, m.SourceLost = true, "The server failed on "+trimStop(text)+"."
	s = addHistory(s, now, fmt.Sprintf("the guest failed on %s: %s", m.From.Host, message))
	switch s.State {
	case Resized:
		return confirm(s, now)
	case Planning, AwaitingSourceAck, Scheduling, Claiming, StoppingSource, Rescheduling:
		return goBack(s, now, m.SourceLost)
	case PreLiveMigration:
		reported := s.Reported
		if s = goBack(s, now, m.SourceLost); reported {
			s.State = Reverting
		}
	}
	// Spawning: the destination is being built. MovingAllocations, Reverting, ReleasingDestination and
	// RestoringAllocations: their end handles SourceLost.
	return s
}

// recordDevices records the devices and cells of the guest as reported.
func recordDevices(s Server, g guestReport, now time.Time) Server {
	if s.Reported && slices.Equal(s.Devices, g.devices) && reflect.DeepEqual(s.Cells, g.cells) {
		return s
	}
	s.Reported, s.Devices, s.Cells = true, slices.Clone(g.devices), slices.Clone(g.cells)
	if len(s.Devices) == 0 {
		return addHistory(s, now, "the agent of "+s.Host+" has accepted the guest")
	}
	var picked []string
	for _, d := range s.Devices {
		picked = append(picked, fmt.Sprintf("%s for %s", d.Address, requestName(s.Requests, d.RequestID)))
	}
	return addHistory(s, now, "the agent of "+s.Host+" picked "+strings.Join(picked, ", "))
}
