package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
)

// This file is the search for a host: for a new server, for one that is unshelved, and for the destination of a move.
// Rounds and choices are the same for all; the state that follows is the server's or that of its move.

// MaxRounds is how often candidates are requested for one server. A further round starts when other consumers took all
// choices of a round, when the filters refused all candidates, or when the guest failed on a host. After the last round
// the server goes to ERROR, or back to its source host.
const MaxRounds = 5

// onPrepared records what the server requests; then candidates are requested.
func onPrepared(s Server, e Prepared, now time.Time) Server {
	s.Ask, s.Requests, s.Topology = e.Ask, e.Requests, e.Topology
	if s.Move != nil {
		return planMove(s, now)
	}
	s.State = Scheduling
	return addHistory(s, now, describe(s.Ask, s.Requests))
}

// onPrepareRefused gives up a server or a move whose request to Placement cannot be built.
func onPrepareRefused(s Server, reason string, now time.Time) Server {
	text := "The request to Placement cannot be built: " + trimStop(reason) + "."
	if s.Move != nil {
		return advance(s, searchEnded{text}, now)
	}
	return fail(s, now, Error, text)
}

// onChosen records the choices of a round and starts the move or the claim of the first choice.
func onChosen(s Server, e Chosen, now time.Time) Server {
	s.Round++
	s = recordSearch(s, e.FilterFailures, e.Search, now)
	s = recordPorts(s, e.Ports, e.PortDevices)
	s = addHistory(s, now, fmt.Sprintf("Placement returned %s; %s%s", count(e.Candidates, "candidate"),
		count(len(e.Choices), "choice"), prefixed("; refused: ", e.Refused)))
	excluded := s.ExcludedHosts()
	s.Choices = slices.DeleteFunc(slices.Clone(e.Choices), func(c schedule.Choice) bool {
		return excluded[c.Host] != ""
	})
	if len(s.Choices) == 0 { // violates the contract of Chosen; a claim without a choice would be repeated forever
		return giveUp(s, now, "all choices are on excluded hosts", false)
	}
	return tryChoice(s, now)
}

// onNoValidHost starts another round if one can help, otherwise it gives up.
func onNoValidHost(s Server, e NoValidHost, now time.Time) Server {
	s.Round++
	s = recordSearch(s, e.FilterFailures, e.Search, now)
	s = addHistory(s, now, fmt.Sprintf("Placement returned %s; no host is suitable: %s",
		count(e.Candidates, "candidate"), e.Reason))
	if e.Again && s.Round < MaxRounds && !s.isAborted() {
		return s // the state and its step stay; only the round changes
	}
	return giveUp(s, now, e.Reason, false)
}

// recordSearch records what filters have refused in a round, and how many hosts each clause has left.
func recordSearch(s Server, failures []schedule.FilterFailure, search schedule.Search, now time.Time) Server {
	s.FilterFailures, s.Search = failures[:min(len(failures), maxNamed)], nil
	if len(search.Funnel) > 0 {
		s.Search = &HostSearch{At: now, Search: search}
	}
	return s
}

// tryChoice continues with the first choice: it is claimed, or the move to it starts. A choice is lost that would break
// the policy of the server group, or whose host is in another zone by now. The store has read both in the transaction
// that stores the result, so that no other member is recorded on the host in between.
func tryChoice(s Server, now time.Time) Server {
	if why := s.refuseChoice(); why != "" {
		s = addHistory(s, now, fmt.Sprintf("cannot be on %s: %s", s.Choices[0].Host, why))
		return loseChoice(s, why, now)
	}
	if s.quota != nil {
		if err := s.quota(s); err != nil {
			return exceedQuota(s, err.Error(), now)
		}
	}
	if s.Move != nil {
		return advance(s, choicesFound{}, now)
	}
	s.State = Claiming
	return countClaim(s, now)
}

// exceedQuota continues without the first choice, whose allocation exceeds a quota. Another round would find the same.
func exceedQuota(s Server, why string, now time.Time) Server {
	s = addHistory(s, now, fmt.Sprintf("cannot be on %s: %s", s.Choices[0].Host, why))
	if s.Choices = s.Choices[1:]; len(s.Choices) > 0 {
		return tryChoice(s, now)
	}
	return giveUp(s, now, why, s.State != Scheduling)
}

// onClaimed records that the first choice is claimed. The guest is built there, unless the move does something first or
// the other servers of the request must be claimed too.
func onClaimed(s Server, now time.Time) Server {
	choice := s.Choices[0]
	s.Host, s.HostZone, s.Reported, s.PreviousConsumer = choice.Host, choice.Zone, false, ""
	s.Devices, s.Cells, s.PortsRefused = nil, nil, ""
	s.Choices = s.Choices[:1:1]
	s.Requests, s.Topology = WithProviders(s.Requests, choice.Mappings), numa.WithChoices(s.Topology, choice.Cells)
	s.Ports = portsClaimed(s.Ports, choice)
	if s.Move != nil {
		return advance(s, destinationClaimed{host: s.Host, off: s.Power == Off}, now)
	}
	if s.MinCount > 1 && !s.MinCountReached && !s.Shelved {
		s.State = AwaitingMinCount
		return addHistory(s, now, fmt.Sprintf("claimed on %s; waiting until %d servers of the request are claimed",
			s.Host, s.MinCount))
	}
	return beginBuild(s, "claimed on "+s.Host, "its agent", now)
}

// onClaimLost claims the next choice; without one it starts another round, and after the last round it gives up.
func onClaimLost(s Server, e ClaimLost, now time.Time) Server {
	s = addHistory(s, now, fmt.Sprintf("lost the claim on %s: %s", s.Choices[0].Host, e.Reason))
	return loseChoice(s, e.Reason, now)
}

// loseChoice continues without the first choice.
func loseChoice(s Server, why string, now time.Time) Server {
	s.Choices = s.Choices[1:]
	switch {
	case len(s.Choices) > 0:
		return tryChoice(s, now)
	case s.Round >= MaxRounds:
		reason := fmt.Sprintf("other consumers took all choices in each of %d rounds, last: %s", s.Round, why)
		return giveUp(s, now, reason, s.State != Scheduling)
	}
	const again = "all choices were lost; requesting candidates again"
	if s.Move != nil {
		return advance(s, choicesLost{again}, now)
	}
	s.State = Scheduling
	return addHistory(s, now, again)
}

// reschedule releases the claim on the host where the guest failed, so that another host can be tried.
func reschedule(s Server, message string, now time.Time) Server {
	s = addHistory(s, now, fmt.Sprintf("the guest failed on %s: %s", s.Host, message))
	if s.Round >= MaxRounds {
		return giveUp(s, now, lastFailure(s, message), true)
	}
	s.State = Rescheduling
	return excludeHost(s, s.Host, message)
}

// lastFailure returns why a server is given up whose guest failed on Host in the last round.
func lastFailure(s Server, message string) string {
	return fmt.Sprintf("gave up after %d rounds, last: %s: %s", s.Round, s.Host, message)
}

// giveUp ends the search for a host. A server that moves goes back to its source, one that is being unshelved is
// shelved again with the reason in Refusal, any other goes to ERROR. holds is true if the server's own consumer may
// hold an allocation.
func giveUp(s Server, now time.Time, reason string, holds bool) Server {
	switch {
	case s.Move != nil:
		return advance(s, searchEnded{noValidHost(s, reason)}, now)
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
	s.Refusal = &Fault{Code: 500, Message: noValidHost(s, reason), Created: now}
	return addHistory(s, now, s.Refusal.Message)
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

// unlessAgain returns why a move must be given up, or an empty string if another round is permitted.
func unlessAgain(s Server, reason string) string {
	if s.Round < MaxRounds {
		return ""
	}
	return noValidHost(s, reason)
}
