// Package lifecycle is the state machine of a server: one state, one event, the next state and the steps to take.
//
// It decides and does nothing. Every pair of state and event is defined; what is ignored is ignored on
// purpose, because events come late, twice, and from agents that have not heard the latest. Steps follow
// from the state alone, so that a stored record says by itself what is to be done after a restart.
//
// A server is made: scheduling, claiming, (mustering,) assigned, active. It moves:
//
//	planning → rekeying → handing → claiming → halting → assigned → resized → active      resize and cold migration
//	planning → rekeying → claiming → assigned → active                                    evacuation
//	planning → rekeying → handing → claiming → receiving → crossing → active              live migration
//
// and goes back by reverting → undoing → restoring → active. From rekeying on, the migration is a consumer of its own that
// keeps what the server had; the server's own consumer has what it will have. So nothing is ever held by nobody.
// What a move leaves behind on a host is in Left until the agent there says that it is gone: only that frees it, or an operator who
// says that the host is dead.
package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// MaxRounds is how often candidates are asked for on behalf of one server: when all choices of a round were taken by
// others, none stood, or a guest failed on a host. After that the server goes to ERROR, or back to where it was.
const MaxRounds = 5

// Next gives the server after the event, and what is to be done for it then. now is the time of the event. The
// server given is not changed.
func Next(s Server, e Event, now time.Time) (Server, []Step) {
	next, _ := move(s, e, now.UTC())
	return next, next.Steps()
}

// move is the table: by event here, by state in each. known is false for what nobody has thought of; a test walks all pairs.
func move(s Server, e Event, now time.Time) (next Server, known bool) {
	if s.State == "" || s.State == Deleted { // it does not exist yet, or nothing happens to it any more
		if _, born := e.(Created); born && s.State == "" {
			s.State, s.Created = Scheduling, now
			s = addHistory(s, now, describe(s.Ask, s.Requests))
		}
		return s, isKnown(e)
	}
	if !slices.Contains(States(), s.State) {
		return s, false
	}
	switch e := e.(type) {
	case Created: // once
		return s, true
	case Report:
		return onReport(s, e, now)
	case GuestClaimed:
		return applyReport(s, guestReport{"claimed", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, "", false}, now), true
	case GuestRunning:
		return applyReport(s, guestReport{"running", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, "", false}, now), true
	case GuestStopped:
		return applyReport(s, guestReport{"stopped", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, "", false}, now), true
	case GuestRefused:
		return applyReport(s, guestReport{"refused", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, e.Message, e.Stopped}, now), true
	case GuestMigrated:
		return applyReport(s, guestReport{phase: "departed", host: e.Host, as: e.Consumer}, now), true
	case GuestFailed:
		return applyReport(s, guestReport{phase: "failed", host: e.Host, as: e.Consumer, message: e.Message}, now), true
	case GuestGone:
		return applyReport(s, guestReport{phase: "gone", host: e.Host, as: e.Consumer}, now), true
	case HostDead:
		return onHostDead(s, e.Host, now), true
	case DeleteRequested:
		return remove(s, e, now), true
	case ActionRequested:
		return applyAction(s, e, now), true
	case StepFailed:
		return onStepFailed(s, e, now), true
	}
	return answer(s, e, now)
}

func isKnown(e Event) bool {
	_, known := move(Server{State: DeletedAwaitingCleanup}, e, time.Time{})
	return known
}

// answer takes in what came of a step. What answers another state's step is late, and ignored.
func answer(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case Chosen:
		if s.State == Scheduling || s.State == Planning {
			s = chosen(s, e, now)
		}
	case NoValidHost:
		if s.State == Scheduling || s.State == Planning {
			s = nothing(s, e, now)
		}
	case Claimed:
		if s.State == Claiming && e.Try == s.Try {
			s = claimed(s, now)
		}
	case ClaimLost:
		if s.State == Claiming && e.Try == s.Try {
			s = onClaimLost(s, e, now)
		}
	case MinCountReached:
		if s.State == AwaitingMinCount {
			s.State, s.MinCountReached = Spawning, true
			s = addHistory(s, now, "enough servers of its request have a place; the agent of "+s.Host+" is to build the guest")
		}
	case MinCountFailed:
		if s.State == AwaitingMinCount {
			s = giveUp(s, now, e.Reason, true)
		}
	case AllocationsMoved:
		if s.State == MovingAllocations {
			s = rekeyed(s, now)
		}
	case AllocationsRestored:
		if s.State == RestoringAllocations {
			s = restored(s, now)
		}
	case Released:
		if slices.Contains(s.State.Steps(), Release) {
			s = released(s, now)
		}
	case LeftoverReleased:
		s = dropped(s, e, now)
	case Refused:
		if slices.Contains(s.State.Steps(), e.Step) {
			s = refused(s, e, now)
		}
	default:
		return s, false
	}
	return s, true
}

func chosen(s Server, e Chosen, now time.Time) Server {
	s.Round++
	s.FilterFailures = e.FilterFailures[:min(len(e.FilterFailures), maxNamed)]
	s = addHistory(s, now, fmt.Sprintf("Placement offers %s; %s%s", count(e.Candidates, "candidate"),
		count(len(e.Choices), "choice"), also("; refused: ", e.Refused)))
	bars := s.ExcludedHosts()
	s.Choices = slices.DeleteFunc(slices.Clone(e.Choices), func(c schedule.Choice) bool { return bars[c.Host] != "" })
	if len(s.Choices) == 0 { // not what Chosen promises; an empty claim would never end
		return giveUp(s, now, "no choice was made of the candidates", false)
	}
	if s.State == Planning {
		s.State = MovingAllocations
		return addHistory(s, now, fmt.Sprintf("what it holds on %s becomes that of migration %s", s.Move.From.Host, s.Move.Consumer))
	}
	return try(s, now)
}

func nothing(s Server, e NoValidHost, now time.Time) Server {
	s.Round++
	s.FilterFailures = e.FilterFailures[:min(len(e.FilterFailures), maxNamed)]
	s = addHistory(s, now, fmt.Sprintf("Placement offers %s; nothing fits: %s", count(e.Candidates, "candidate"), e.Reason))
	if e.Again && s.Round < MaxRounds {
		return s // its step is the same, its round another
	}
	return giveUp(s, now, e.Reason, false)
}

// claimed goes on with what is held: who builds it now, or who must make room first.
func claimed(s Server, now time.Time) Server {
	choice := s.Choices[0]
	s.State, s.Host, s.Reported, s.PreviousConsumer, s.Devices, s.Cells = Spawning, choice.Host, false, "", nil, nil
	s.Choices = s.Choices[:1:1]
	s.Requests = serve(s.Requests, choice.Mappings)
	if s.Move == nil {
		if s.MinCount > 1 && !s.MinCountReached && !s.Shelved {
			s.State = AwaitingMinCount
			return addHistory(s, now, fmt.Sprintf("claimed on %s; waits until %d of its request have a place", s.Host, s.MinCount))
		}
		return addHistory(s, now, fmt.Sprintf("claimed on %s; its agent is to build the guest", s.Host))
	}
	s = setMigrationStatus(s, now, "migrating")
	m := s.change()
	switch {
	case m.Kind == LiveMigration && !m.From.Gone:
		s.State = PreLiveMigration
		return addHistory(s, now, fmt.Sprintf("claimed on %s; its agent is to receive the guest", s.Host))
	case (m.Kind == Resizing || m.Kind == Migrating) && !m.From.Gone && !(m.SourceStopped && (m.StopSource || s.Power == Off)):
		s.State, m.StopSource, m.SourceStopped = StoppingSource, true, false
		return addHistory(s, now, fmt.Sprintf("claimed on %s; the guest on %s is to stop", s.Host, m.From.Host))
	}
	return addHistory(s, now, fmt.Sprintf("claimed on %s; its agent is to build the guest", s.Host))
}

// try begins the claim of the first choice.
func try(s Server, now time.Time) Server {
	s.State = Claiming
	s.Try++
	return addHistory(s, now, "claims "+describeChoice(s.Choices[0], s.Requests))
}

// lose goes on to the next choice, or asks again, or gives up.
func onClaimLost(s Server, e ClaimLost, now time.Time) Server {
	s = addHistory(s, now, fmt.Sprintf("lost the claim on %s: %s", s.Choices[0].Host, e.Reason))
	s.Choices = s.Choices[1:]
	switch {
	case len(s.Choices) > 0:
		return try(s, now)
	case s.Round < MaxRounds:
		s.State = Scheduling
		return addHistory(s, now, "all choices were lost; asks again")
	}
	return giveUp(s, now, fmt.Sprintf("others were faster in each of %d rounds, last: %s", s.Round, e.Reason), true)
}

// retreat leaves the host where the guest failed.
func reschedule(s Server, message string, now time.Time) Server {
	s = addHistory(s, now, fmt.Sprintf("the guest failed on %s: %s", s.Host, message))
	if s.Round >= MaxRounds {
		return giveUp(s, now, fmt.Sprintf("gave up after %d rounds, last: %s: %s", s.Round, s.Host, message), true)
	}
	s.FailedHosts = maps.Clone(s.FailedHosts)
	if s.FailedHosts == nil {
		s.FailedHosts = map[string]string{}
	}
	s.FailedHosts[s.Host] = message
	s.State = Rescheduling
	return s
}

// giveUp ends the search for a place: a server that moves goes back, one that was shelved is so again, another goes to ERROR.
// holds says that its own consumer may hold something.
func giveUp(s Server, now time.Time, reason string, holds bool) Server {
	switch {
	case s.Move != nil:
		return goBack(s, now, noValidHost(s, reason))
	case s.Shelved && holds:
		s.State = Offloading
	case s.Shelved:
		s.State, s.Choices = Shelved, nil
	default:
		to := Error
		if holds {
			to = Failing
		}
		return fail(s, now, to, noValidHost(s, reason))
	}
	return addHistory(s, now, noValidHost(s, reason))
}

// noHost is the sentence that the user reads. Reasons come from other services, with a full stop or without.
func noValidHost(s Server, reason string) string {
	text := "No valid host was found: " + bare(reason)
	if len(s.FailedHosts) > 0 {
		var tried []string
		for _, host := range slices.Sorted(maps.Keys(s.FailedHosts)) {
			tried = append(tried, host+": "+bare(s.FailedHosts[host]))
		}
		text += "; tried before: " + strings.Join(tried, "; ")
	}
	return text + "."
}

func bare(text string) string { return strings.TrimRight(text, ". ") }

func fail(s Server, now time.Time, to State, text string) Server {
	s.State = to
	s.Fault = &Fault{Code: 500, Message: text, Created: now}
	if to == Error {
		s.Host, s.Choices = "", nil
	}
	return addHistory(s, now, text)
}

func refused(s Server, e Refused, now time.Time) Server {
	switch e.Step {
	case Schedule:
		return giveUp(s, now, e.Reason, false)
	case Claim:
		return giveUp(s, now, e.Reason, true)
	case MoveAllocations:
		return goBack(s, now, "The move cannot begin: "+bare(e.Reason)+".")
	}
	return s // nothing else may be given up
}

func onStepFailed(s Server, e StepFailed, now time.Time) Server {
	if !slices.Contains(s.Steps(), e.Step) {
		return s // late
	}
	if e.Refused && s.State == RestoringAllocations && e.Step == RestoreAllocations {
		return onRestoreRefused(s, e, now)
	}
	return addHistory(s, now, fmt.Sprintf("cannot %s now, will try again: %s", e.Step, e.Reason))
}

// released goes on when the server's own consumer holds nothing any more.
func released(s Server, now time.Time) Server {
	s.Requests, s.Choices, s.Devices, s.Cells, s.Reported = serve(s.Requests, nil), nil, nil, nil, false
	s = addHistory(s, now, "holds nothing in Placement")
	switch s.State {
	case DeletingAllocation:
		return finish(s, now)
	case Failing:
		s.State = Error
	case ReleasingDestination:
		s.State = RestoringAllocations
	case Offloading:
		s.State = Shelved
		s.Shelved, s.Stopped, s.Power = true, false, On
		s = addHistory(s, now, "is shelved")
	case Rescheduling:
		s.State = Scheduling
	}
	s.Host = ""
	return s
}

// dropped forgets what was left behind and is free now.
func dropped(s Server, e LeftoverReleased, now time.Time) Server {
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool { return l.Gone })
	if i < 0 || s.Leftovers[i].Consumer != e.Consumer {
		return s // late
	}
	s = addHistory(s, now, fmt.Sprintf("what it had left on %s is free", s.Leftovers[i].Host))
	s.Leftovers = slices.Delete(slices.Clone(s.Leftovers), i, i+1)
	if s.State == DeletedAwaitingCleanup && len(s.Leftovers) == 0 {
		return end(s, now)
	}
	return s
}

// remove begins the end. Where a consumer's name is about to change, it waits for that: else nobody knew what to give back.
func remove(s Server, e DeleteRequested, now time.Time) Server {
	if e.Silent && s.Ended.IsZero() {
		s.Ended = now
	}
	if !s.Requested.IsZero() {
		return s // asked for already
	}
	s.Requested = now
	if s.State == Planning {
		s = unplan(s)
	}
	if s.State == MovingAllocations || s.State == RestoringAllocations {
		return addHistory(s, now, "is to be deleted")
	}
	if s.State == RevertBlocked {
		return finish(setMigrationStatus(leave(s), now, "cancelled"), now) // the migration alone holds something
	}
	if s.Move != nil {
		s = setMigrationStatus(leave(s), now, "cancelled")
	}
	switch s.State {
	case Scheduling, AwaitingSourceAck, Error, Shelved:
		return finish(s, now) // it holds nothing
	case Active, Resized, Reverting, Shelving:
		s.State = DeletingGuest
	case PreLiveMigration, LiveMigrating, Spawning:
		s.State = DeletingAllocation // the agent has told of nothing, so there may be nothing that it could tell the end of
		if s.Reported || e.Exists {
			s.State = DeletingGuest
		}
	default:
		// A claim may be on its way this moment. The runner performs one step after the other, so Release comes after it.
		s.State = DeletingAllocation
	}
	return addHistory(s, now, "is to be deleted")
}

// finish ends a server whose own consumer holds nothing.
func finish(s Server, now time.Time) Server {
	if len(s.Leftovers) == 0 {
		return end(s, now)
	}
	s.State, s.Choices = DeletedAwaitingCleanup, nil
	return addHistory(s, now, "is deleted but for what it has left on "+s.Leftovers[0].Host)
}

func end(s Server, now time.Time) Server {
	s.State, s.Choices = Deleted, nil
	for _, at := range []*time.Time{&s.Ended, &s.Requested} {
		if at.IsZero() {
			*at = now
		}
	}
	return addHistory(s, now, "deleted")
}

// serve writes into each request the provider chosen for each of its devices (spec 002, "The PCI stats module": "the selected
// mapping is recorded into the InstancePCIRequest objects"). Requests without groups get none.
func serve(requests []pci.Request, mappings map[string][]provider.ID) []pci.Request {
	out := slices.Clone(requests)
	for i := range out {
		out[i].Providers = nil
		for n := range out[i].Count {
			if chosen := mappings[out[i].GroupSuffix(n)]; len(chosen) > 0 {
				out[i].Providers = append(out[i].Providers, chosen[0])
			}
		}
	}
	return out
}
