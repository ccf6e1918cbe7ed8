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

// said is what an agent says of a guest.
type guestReport struct {
	phase    string
	host, as string
	devices  []schedule.Picked
	parts    []numa.Placed
	build    int
	message  string
	stopped  bool // with phase refused
}

// Expects reports whether a guest of this consumer is awaited on a host: it stands in the assignments there.
func (s Server) Expects(consumer, host string) bool {
	return slices.ContainsFunc(s.Entries(), func(e Entry) bool { return e.Consumer == consumer && e.Host == host })
}

// maxVoices is how many voices a server remembers: those heard last. One is forgotten when as many other agents have spoken of it since.
const maxVoices = 16

// listen takes in what an agent says, unless it is older than what that agent has said of any guest of the server before: a guest may have
// had another name then.
func onReport(s Server, e Report, now time.Time) (Server, bool) {
	if e.Number <= s.Latest(e.Host, e.Instance) {
		return s, isKnown(e.Event)
	}
	s, known := move(s, e.Event, now)
	s.LastReports = slices.DeleteFunc(slices.Clone(s.LastReports), func(v LastReport) bool { return v.Host == e.Host && v.Instance == e.Instance })
	s.LastReports = append(s.LastReports, LastReport{Host: e.Host, Instance: e.Instance, Number: e.Number})
	s.LastReports = s.LastReports[max(0, len(s.LastReports)-maxVoices):]
	return s, known
}

// Latest is the number of the last that an instance of the agent of a host has said of the server; 0 for nothing.
func (s Server) Latest(host, instance string) int64 {
	for _, v := range s.LastReports {
		if v.Host == host && v.Instance == instance {
			return v.Number
		}
	}
	return 0
}

// hears finds out of which of its stays an agent speaks. Of another it speaks too late, or of what it was before.
func applyReport(s Server, g guestReport, now time.Time) Server {
	if g.as == "" {
		g.as = s.ID
	}
	mine := g.as == s.ID || g.as == s.PreviousConsumer && g.phase == "gone" // it may go before its agent has heard of its new id
	if mine && g.host != "" && g.host == s.AllocatedHost() {
		return ownGuest(s, g, now)
	}
	if m := s.Move; m != nil && m.From.Host == g.host {
		doomed := !s.Requested.IsZero() && g.as == m.From.PreviousConsumer && (g.phase == "gone" || g.phase == "failed")
		if g.as == m.From.Consumer || doomed {
			return sourceGuest(s, g, now)
		}
	}
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool {
		return l.Host == g.host && !l.Gone && (g.as == l.Consumer || g.as == l.PreviousConsumer)
	})
	if i < 0 {
		return s
	}
	s.Leftovers = slices.Clone(s.Leftovers)
	switch {
	case g.phase == "gone": // not failed: the guest may have failed to leave. The agent is told to remove it and says when it is gone
		s.Leftovers[i].Gone = true
		s = addHistory(s, now, "nothing of what it left is on "+g.host+" any more")
	case g.as == s.Leftovers[i].Consumer: // its agent knows it by the new id
		s.Leftovers[i].PreviousConsumer = ""
	}
	return s
}

// ownGuest takes in what is said of the guest of the server's own consumer, where it is placed.
func ownGuest(s Server, g guestReport, now time.Time) Server {
	switch g.phase {
	case "gone":
		return vanished(s, "", now)
	case "failed":
		return broken(s, g.message, now)
	case "departed":
		return s // it goes nowhere
	case "refused":
		return refuse(s, g, now)
	}
	s = countBuilds(s, g)
	switch s.State {
	case PreLiveMigration, LiveMigrating:
		s = hear(s, g, now)
		switch {
		case g.phase == "running": // the guest has arrived, also when the record is from a backup of before
			s = onArrived(s, now, false)
		case s.State == PreLiveMigration && g.phase == "claimed":
			s.State = LiveMigrating
			s = addHistory(s, now, fmt.Sprintf("the agent of %s is to send the guest to %s", s.Move.From.Host, s.Host))
		}
	case Spawning:
		s = hear(s, g, now)
		if g.phase == "running" && s.Power == On || g.phase == "stopped" && s.Power == Off {
			s = onArrived(s, now, g.phase == "stopped")
		}
	case Active, Resized:
		s = hear(s, g, now)
		s.PreviousConsumer = "" // the agent knows it by its id
		if g.phase != "claimed" {
			s = settle(s, g, now)
		}
	}
	return s // else it is not in the assignments, or not any more: late
}

// countBuilds takes note that a guest has been rebuilt more often than the record knows, as when the record is from a backup. A rebuild that is
// asked for now is then one more: its agent builds no guest again as it was.
func countBuilds(s Server, g guestReport) Server {
	if g.build <= s.Builds {
		return s
	}
	if s.Builds = g.build; s.Task == Rebuilding {
		s.Builds++
	}
	return s
}

// refuse gives up what was to be done to a guest, because its hypervisor will not do it: what the guest does is from now on what it shall do.
// The user reads why, and may ask again.
func refuse(s Server, g guestReport, now time.Time) Server {
	switch s.State {
	case PreLiveMigration, LiveMigrating: // nothing but its devices was asked for
		return hear(s, g, now)
	case Spawning, Active, Resized:
		s = hear(s, g, now)
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
	if u := s.PreRebuild; u != nil && g.build != s.Builds { // the guest is still the one before
		s.Name, s.Image, s.ImageSnapshot, s.Ask = u.Name, u.Image, u.ImageSnapshot, u.Ask
	}
	s.PreviousConsumer, s.Task, s.Stopped, s.Builds, s.Power, s.PreRebuild = "", "", g.stopped, g.build, On, nil
	if g.stopped {
		s.Power = Off
	}
	if s.State == Spawning {
		s = onArrived(s, now, g.stopped)
	}
	text := fmt.Sprintf("The guest cannot be %s on %s: %s. It stays as it is; ask again when that has been seen to.", what, g.host, bare(g.message))
	s.Refusal = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}

// settle ends what is being done to a guest that is there, when the agent says so.
func settle(s Server, g guestReport, now time.Time) Server {
	stopped := g.phase == "stopped"
	was := s.Task
	switch s.Task {
	case Rebooting, RebootingHard:
		if !stopped {
			return s // late: from before
		}
		s.Task = RebootStarted
		if was == RebootingHard {
			s.Task = RebootStartedHard
		}
	case Rebuilding:
		if g.build != 0 && g.build != s.Builds || stopped != (s.Power == Off) {
			return s // late: of the guest before
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

// vanished goes on when nothing of the guest is left where the server is placed. One that is assigned is built anew by its agent.
func vanished(s Server, why string, now time.Time) Server {
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
	return addHistory(s, now, "nothing of the guest is left on "+s.Host+also(": ", why))
}

// broken goes on when the guest cannot be built or kept where the server is placed, and nothing of it is left there.
func broken(s Server, message string, now time.Time) Server {
	text := fmt.Sprintf("%s: %s", s.Host, message)
	switch s.State {
	case Spawning, PreLiveMigration:
		return reschedule(s, message, now)
	case Active:
		// It has run, so it may have had data: it is not built anew elsewhere.
		s = addHistory(s, now, fmt.Sprintf("the guest failed on %s: %s", s.Host, message))
		s.Task = ""
		return fail(s, now, Failing, "The server failed on "+bare(text)+".")
	case Resized:
		return goBack(s, now, "The guest failed before its move was confirmed: "+bare(text)+".")
	case LiveMigrating:
		return goBack(s, now, "The live migration failed on "+bare(text)+".")
	}
	return vanished(s, "", now)
}

// sourceGuest takes in what is said of the guest at the source of a move.
func sourceGuest(s Server, g guestReport, now time.Time) Server {
	refused := g.phase == "refused"
	if refused {
		g.phase = "running"
		if g.stopped {
			g.phase = "stopped"
		}
	}
	here := g.phase != "gone" && g.phase != "failed"
	if here && g.as == s.Move.From.Consumer && s.Move.AllocationsMoved && s.Move.From.PreviousConsumer != "" {
		s.change().From.PreviousConsumer = "" // the agent knows it by its new id
	}
	switch g.phase {
	case "claimed", "running", "stopped":
		m := s.change()
		m.From.Devices, m.From.Cells, m.From.Reported = slices.Clone(g.devices), slices.Clone(g.parts), true
		if g.phase != "claimed" { // it may have stopped for something that was asked before, and run again
			m.SourceStopped = g.phase == "stopped"
		}
		if !m.AllocationsMoved && g.phase != "claimed" { // should nothing come of the move, this is what it is
			s.Stopped = g.phase == "stopped"
		}
		if s.State == AwaitingSourceAck {
			return try(s, now)
		}
		if refused && m.StopSource && !m.SourceStopped { // it says so once
			text := fmt.Sprintf("The guest cannot be stopped on %s: %s.", m.From.Host, bare(g.message))
			switch s.State {
			case StoppingSource, Rescheduling, Scheduling, Claiming:
				return goBack(s, now, text)
			}
			return addHistory(s, now, text)
		}
		if s.State == StoppingSource && m.SourceStopped {
			s.State = Spawning
			s = setMigrationStatus(s, now, "post-migrating")
			return addHistory(s, now, fmt.Sprintf("the guest on %s has stopped; the agent of %s is to build it", m.From.Host, s.Host))
		}
	case "departed":
		if s.State == LiveMigrating {
			from := s.Move.From.Host
			s = leave(setMigrationStatus(s, now, "completed"))
			s.State, s.Task = Active, Arriving
			return addHistory(s, now, fmt.Sprintf("the guest has left %s for %s", from, s.Host))
		}
	case "failed":
		return stuck(s, g.message, now)
	case "gone":
		if !s.Requested.IsZero() {
			s.change().From.Gone = true
		} // else the agent builds it anew, because it is assigned
	}
	return s
}

// stuck goes on when the guest at the source cannot leave, or has been lost there.
func stuck(s Server, message string, now time.Time) Server {
	text := fmt.Sprintf("%s: %s", s.Move.From.Host, message)
	if s.State == LiveMigrating { // it runs there as before
		s = goBack(s, now, "The live migration failed on "+bare(text)+".")
		s.State = Reverting // the devices at the destination are claimed
		return s
	}
	if s.Move.Kind == LiveMigration && s.Move.Failed != "" {
		return s // said twice
	}
	m := s.change()
	m.From.Gone, m.SourceLost = true, "The server failed on "+bare(text)+"."
	s = addHistory(s, now, fmt.Sprintf("the guest failed on %s: %s", m.From.Host, message))
	switch s.State {
	case Resized:
		return confirm(s, now)
	case Planning, AwaitingSourceAck, Scheduling, Claiming, StoppingSource, Rescheduling:
		return goBack(s, now, m.SourceLost)
	case PreLiveMigration:
		heard := s.Reported
		if s = goBack(s, now, m.SourceLost); heard {
			s.State = Reverting
		}
	}
	return s // Assigned: the destination is on its way; Rekeying, Reverting, Undoing, Restoring: it is seen to after that
}

// hear notes what the agent says that the guest holds.
func hear(s Server, g guestReport, now time.Time) Server {
	if s.Reported && slices.Equal(s.Devices, g.devices) && reflect.DeepEqual(s.Cells, g.parts) {
		return s
	}
	s.Reported, s.Devices, s.Cells = true, slices.Clone(g.devices), slices.Clone(g.parts)
	if len(s.Devices) == 0 {
		return addHistory(s, now, "the agent of "+s.Host+" is at it")
	}
	var picked []string
	for _, d := range s.Devices {
		picked = append(picked, fmt.Sprintf("%s for %s", d.Address, requestName(s.Requests, d.RequestID)))
	}
	return addHistory(s, now, "the agent of "+s.Host+" picked "+strings.Join(picked, ", "))
}
