// Package lifecycle is the state machine of a server: a state and an event yield the next state and the steps to
// perform.
//
// The package decides and performs nothing. Every pair of state and event is defined. Events may arrive late, twice, or
// from an agent that has not received the latest assignments; such events are ignored explicitly. The steps follow from
// the state alone, so a stored record determines what remains to be done after a restart.
//
// A new server: Scheduling, Claiming, (AwaitingMinCount,) Spawning, Active. The moves:
//
//	resize, cold migration:
//	    Planning → MovingAllocations → AwaitingSourceAck → Claiming → StoppingSource → Spawning → Resized → Active
//	evacuation:
//	    Planning → MovingAllocations → Claiming → Spawning → Active
//	live migration:
//	    Planning → MovingAllocations → AwaitingSourceAck → Claiming → PreLiveMigration → LiveMigrating → Active
//
// A revert: Reverting → ReleasingDestination → RestoringAllocations → Active. From MovingAllocations on, the migration
// is a consumer of its own. It holds the source's allocations; the server's own consumer holds the destination's. So
// every resource in use always has a consumer. What a move leaves behind on a host is listed in Leftovers until the
// agent of that host reports that the guest is gone, or an operator declares the host dead. Only then is it released.
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

// MaxRounds is how often candidates are requested for one server. A further round starts when other consumers took all
// choices of a round, when the filters refused all candidates, or when the guest failed on a host. After the last round
// the server goes to ERROR, or back to its source host.
const MaxRounds = 5

// Next returns the server after the event and the steps that are due then. now is the time of the event. The server
// passed in is not changed.
func Next(s Server, e Event, now time.Time) (Server, []Step) {
	next, _ := transition(s, e, now.UTC())
	return next, next.Steps()
}

// transition is the transition table: by event here, by state in each handler. known is false if the pair of state and
// event is not defined; a test covers all pairs.
func transition(s Server, e Event, now time.Time) (next Server, known bool) {
	if s.State == "" || s.State == Deleted { // not created yet, or final
		if _, created := e.(Created); created && s.State == "" {
			s.State, s.Created = Scheduling, now
			s = addHistory(s, now, describe(s.Ask, s.Requests))
		}
		return s, isDefined(e)
	}
	if !slices.Contains(States(), s.State) {
		return s, false
	}
	switch e := e.(type) {
	case Created: // a server is created once
		return s, true
	case Report:
		return onReport(s, e, now)
	case GuestClaimed:
		report := guestReport{"claimed", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, "", false}
		return applyReport(s, report, now), true
	case GuestRunning:
		report := guestReport{"running", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, "", false}
		return applyReport(s, report, now), true
	case GuestStopped:
		report := guestReport{"stopped", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, "", false}
		return applyReport(s, report, now), true
	case GuestRefused:
		report := guestReport{"refused", e.Host, e.Consumer, e.Devices, e.Cells, e.Build, e.Message, e.Stopped}
		return applyReport(s, report, now), true
	case GuestMigrated:
		return applyReport(s, guestReport{phase: "departed", host: e.Host, consumer: e.Consumer}, now), true
	case GuestFailed:
		report := guestReport{phase: "failed", host: e.Host, consumer: e.Consumer, message: e.Message}
		return applyReport(s, report, now), true
	case GuestGone:
		return applyReport(s, guestReport{phase: "gone", host: e.Host, consumer: e.Consumer}, now), true
	case HostDead:
		return onHostDead(s, e.Host, now), true
	case DeleteRequested:
		return onDeleteRequested(s, e, now), true
	case ActionRequested:
		return applyAction(s, e, now), true
	case StepFailed:
		return onStepFailed(s, e, now), true
	}
	return applyResult(s, e, now)
}

// isDefined reports whether the table defines the event.
func isDefined(e Event) bool {
	_, known := transition(Server{State: DeletedAwaitingCleanup}, e, time.Time{})
	return known
}

// applyResult applies the result of a step. A result that belongs to a step of another state is late and is ignored.
func applyResult(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case Chosen:
		if s.State == Scheduling || s.State == Planning {
			s = onChosen(s, e, now)
		}
	case NoValidHost:
		if s.State == Scheduling || s.State == Planning {
			s = onNoValidHost(s, e, now)
		}
	case Claimed:
		if s.State == Claiming && e.Try == s.Try {
			s = onClaimed(s, now)
		}
	case ClaimLost:
		if s.State == Claiming && e.Try == s.Try {
			s = onClaimLost(s, e, now)
		}
	case MinCountReached:
		if s.State == AwaitingMinCount {
			s.State, s.MinCountReached = Spawning, true
			s = addHistory(s, now, "min_count reached; waiting for the agent of "+s.Host+" to build the guest")
		}
	case MinCountFailed:
		if s.State == AwaitingMinCount {
			s = giveUp(s, now, e.Reason, true)
		}
	case AllocationsMoved:
		if s.State == MovingAllocations {
			s = onAllocationsMoved(s, now)
		}
	case AllocationsRestored:
		if s.State == RestoringAllocations {
			s = onAllocationsRestored(s, now)
		}
	case Released:
		if slices.Contains(s.State.Steps(), Release) {
			s = onReleased(s, now)
		}
	case LeftoverReleased:
		s = onLeftoverReleased(s, e, now)
	case Refused:
		if slices.Contains(s.State.Steps(), e.Step) {
			s = onRefused(s, e, now)
		}
	default:
		return s, false
	}
	return s, true
}

// onChosen records the choices of a round and starts the move or the claim of the first choice.
func onChosen(s Server, e Chosen, now time.Time) Server {
	s.Round++
	s.FilterFailures = e.FilterFailures[:min(len(e.FilterFailures), maxNamed)]
	s = addHistory(s, now, fmt.Sprintf("Placement returned %s; %s%s", count(e.Candidates, "candidate"),
		count(len(e.Choices), "choice"), prefixed("; refused: ", e.Refused)))
	excluded := s.ExcludedHosts()
	s.Choices = slices.DeleteFunc(slices.Clone(e.Choices), func(c schedule.Choice) bool {
		return excluded[c.Host] != ""
	})
	if len(s.Choices) == 0 { // violates the contract of Chosen; a claim without a choice would be repeated forever
		return giveUp(s, now, "all choices are on excluded hosts", false)
	}
	if s.State == Planning {
		s.State = MovingAllocations
		return addHistory(s, now, fmt.Sprintf("moving the allocations on %s to migration %s",
			s.Move.From.Host, s.Move.Consumer))
	}
	return beginClaim(s, now)
}

// onNoValidHost starts another round if one can help, otherwise it gives up.
func onNoValidHost(s Server, e NoValidHost, now time.Time) Server {
	s.Round++
	s.FilterFailures = e.FilterFailures[:min(len(e.FilterFailures), maxNamed)]
	s = addHistory(s, now, fmt.Sprintf("Placement returned %s; no host is suitable: %s",
		count(e.Candidates, "candidate"), e.Reason))
	if e.Again && s.Round < MaxRounds {
		return s // the state and its step stay; only the round changes
	}
	return giveUp(s, now, e.Reason, false)
}

// onClaimed records that the first choice is claimed. The next state depends on the move: build the guest, prepare the
// destination, stop the source, or wait for the other servers of the request.
func onClaimed(s Server, now time.Time) Server {
	choice := s.Choices[0]
	s.State, s.Host, s.Reported, s.PreviousConsumer = Spawning, choice.Host, false, ""
	s.Devices, s.Cells = nil, nil
	s.Choices = s.Choices[:1:1]
	s.Requests = withProviders(s.Requests, choice.Mappings)
	if s.Move == nil {
		if s.MinCount > 1 && !s.MinCountReached && !s.Shelved {
			s.State = AwaitingMinCount
			return addHistory(s, now, fmt.Sprintf("claimed on %s; waiting until %d servers of the request are claimed",
				s.Host, s.MinCount))
		}
		return addHistory(s, now, fmt.Sprintf("claimed on %s; waiting for its agent to build the guest", s.Host))
	}
	s = setMigrationStatus(s, now, "migrating")
	m := s.change()
	switch {
	case m.Kind == LiveMigration && !m.From.Gone:
		s.State = PreLiveMigration
		return addHistory(s, now, "claimed on "+s.Host+"; waiting for its agent to prepare the live migration")
	case (m.Kind == Resizing || m.Kind == Migrating) && !m.From.Gone &&
		!(m.SourceStopped && (m.StopSource || s.Power == Off)):
		s.State, m.StopSource, m.SourceStopped = StoppingSource, true, false
		return addHistory(s, now, fmt.Sprintf("claimed on %s; waiting for the guest on %s to stop",
			s.Host, m.From.Host))
	}
	return addHistory(s, now, fmt.Sprintf("claimed on %s; waiting for its agent to build the guest", s.Host))
}

// beginClaim starts the claim of the first choice.
func beginClaim(s Server, now time.Time) Server {
	s.State = Claiming
	s.Try++
	return addHistory(s, now, "claiming "+describeChoice(s.Choices[0], s.Requests))
}

// onClaimLost claims the next choice; without one it starts another round, and after the last round it gives up.
func onClaimLost(s Server, e ClaimLost, now time.Time) Server {
	s = addHistory(s, now, fmt.Sprintf("lost the claim on %s: %s", s.Choices[0].Host, e.Reason))
	s.Choices = s.Choices[1:]
	switch {
	case len(s.Choices) > 0:
		return beginClaim(s, now)
	case s.Round < MaxRounds:
		s.State = Scheduling
		return addHistory(s, now, "all choices were lost; requesting candidates again")
	}
	reason := fmt.Sprintf("other consumers took all choices in each of %d rounds, last: %s", s.Round, e.Reason)
	return giveUp(s, now, reason, true)
}

// reschedule releases the claim on the host where the guest failed, so that another host can be tried.
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

// giveUp ends the search for a host. A server that moves goes back to its source, one that is being unshelved is
// shelved again, any other goes to ERROR. holds is true if the server's own consumer may hold an allocation.
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

// noValidHost returns the fault message for the user. It ends with exactly one full stop: reasons come from other
// services, with a full stop or without.
func noValidHost(s Server, reason string) string {
	text := "No valid host was found: " + trimStop(reason)
	if len(s.FailedHosts) > 0 {
		var tried []string
		for _, host := range slices.Sorted(maps.Keys(s.FailedHosts)) {
			tried = append(tried, host+": "+trimStop(s.FailedHosts[host]))
		}
		text += "; tried before: " + strings.Join(tried, "; ")
	}
	return text + "."
}

// trimStop returns the text without its final full stop.
func trimStop(text string) string { return strings.TrimRight(text, ". ") }

// fail sets the state and the fault of a server that cannot be built or restored.
func fail(s Server, now time.Time, to State, text string) Server {
	s.State = to
	s.Fault = &Fault{Code: 500, Message: text, Created: now}
	if to == Error {
		s.Host, s.Choices = "", nil
	}
	return addHistory(s, now, text)
}

// onRefused ends what the refused step belongs to.
func onRefused(s Server, e Refused, now time.Time) Server {
	switch e.Step {
	case Schedule:
		return giveUp(s, now, e.Reason, false)
	case Claim:
		return giveUp(s, now, e.Reason, true)
	case MoveAllocations:
		return goBack(s, now, "The move cannot start: "+trimStop(e.Reason)+".")
	}
	return s // the other steps are repeated until they succeed
}

// onStepFailed records the failure. The runner repeats the step.
func onStepFailed(s Server, e StepFailed, now time.Time) Server {
	if !slices.Contains(s.Steps(), e.Step) {
		return s // late
	}
	if e.Refused && s.State == RestoringAllocations && e.Step == RestoreAllocations {
		return onRestoreRefused(s, e, now)
	}
	return addHistory(s, now, fmt.Sprintf("cannot %s now, will try again: %s", e.Step, e.Reason))
}

// onReleased continues after the allocations of the server's own consumer have been released.
func onReleased(s Server, now time.Time) Server {
	s.Requests, s.Choices, s.Devices, s.Cells, s.Reported = withProviders(s.Requests, nil), nil, nil, nil, false
	s = addHistory(s, now, "released its allocations in Placement")
	switch s.State {
	case DeletingAllocation:
		return finishDeletion(s, now)
	case Failing:
		s.State = Error
	case ReleasingDestination:
		s.State = RestoringAllocations
	case Offloading:
		s.State = Shelved
		s.Shelved, s.Stopped, s.Power = true, false, On
		s = addHistory(s, now, "shelved")
	case Rescheduling:
		s.State = Scheduling
	}
	s.Host = ""
	return s
}

// onLeftoverReleased removes the leftover whose allocations have been released.
func onLeftoverReleased(s Server, e LeftoverReleased, now time.Time) Server {
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool { return l.Gone })
	if i < 0 || s.Leftovers[i].Consumer != e.Consumer {
		return s // late
	}
	s = addHistory(s, now, fmt.Sprintf("released the leftover on %s", s.Leftovers[i].Host))
	s.Leftovers = slices.Delete(slices.Clone(s.Leftovers), i, i+1)
	if s.State == DeletedAwaitingCleanup && len(s.Leftovers) == 0 {
		return markDeleted(s, now)
	}
	return s
}

// onDeleteRequested starts the deletion. While allocations are being moved between consumers it waits for the result,
// because only then is it certain which consumer must release them.
func onDeleteRequested(s Server, e DeleteRequested, now time.Time) Server {
	if e.Silent && s.Ended.IsZero() {
		s.Ended = now
	}
	if !s.Requested.IsZero() {
		return s // requested before
	}
	s.Requested = now
	if s.State == Planning {
		s = restoreSource(s)
	}
	if s.State == MovingAllocations || s.State == RestoringAllocations {
		return addHistory(s, now, "deletion requested")
	}
	if s.State == RevertBlocked { // only the migration holds allocations
		return finishDeletion(setMigrationStatus(leaveSource(s), now, "cancelled"), now)
	}
	if s.Move != nil {
		s = setMigrationStatus(leaveSource(s), now, "cancelled")
	}
	switch s.State {
	case Scheduling, AwaitingSourceAck, Error, Shelved:
		return finishDeletion(s, now) // it holds no allocation
	case Active, Resized, Reverting, Shelving:
		s.State = DeletingGuest
	case PreLiveMigration, LiveMigrating, Spawning:
		s.State = DeletingAllocation // the agent has not reported the guest, so it might never report its end
		if s.Reported || e.Exists {
			s.State = DeletingGuest
		}
	default:
		// A claim may be in progress. The runner performs the steps of a server in sequence, so Release follows it.
		s.State = DeletingAllocation
	}
	return addHistory(s, now, "deletion requested")
}

// finishDeletion ends the deletion of a server whose own consumer holds nothing. Leftovers delay it.
func finishDeletion(s Server, now time.Time) Server {
	if len(s.Leftovers) == 0 {
		return markDeleted(s, now)
	}
	s.State, s.Choices = DeletedAwaitingCleanup, nil
	return addHistory(s, now, "deleted; waiting for the leftover on "+s.Leftovers[0].Host)
}

// markDeleted sets the final state.
func markDeleted(s Server, now time.Time) Server {
	s.State, s.Choices = Deleted, nil
	for _, at := range []*time.Time{&s.Ended, &s.Requested} {
		if at.IsZero() {
			*at = now
		}
	}
	return addHistory(s, now, "deleted")
}

// withProviders returns the requests with the provider that Placement chose for each device, as Nova records them in
// InstancePCIRequest objects. A request without groups in the mappings gets no provider.
func withProviders(requests []pci.Request, mappings map[string][]provider.ID) []pci.Request {
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
