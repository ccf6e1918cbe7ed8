// Package lifecycle is the state machine of a server: one state, one event, the next state and the steps to take.
//
// It decides and does nothing. Every pair of state and event is defined; what is ignored is ignored on
// purpose, because events come late, twice, and from agents that have not heard the latest. Steps follow
// from the state alone, so that a stored record says by itself what is to be done after a restart.
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
// others, none stood, or a guest failed on a host. After that the server goes to ERROR.
const MaxRounds = 5

// Next gives the server after the event, and what is to be done for it then. now is the time of the event. The
// server given is not changed.
func Next(s Server, e Event, now time.Time) (Server, []Step) {
	next, _ := move(s, e, now.UTC())
	return next, next.Steps()
}

// move is the table of states. known is false for a pair that nobody has thought of; a test walks all of them.
func move(s Server, e Event, now time.Time) (next Server, known bool) {
	switch s.State {
	case "":
		return create(s, e, now)
	case Scheduling:
		return scheduling(s, e, now)
	case Claiming:
		return claiming(s, e, now)
	case Assigned:
		return assigned(s, e, now)
	case Active:
		return active(s, e, now)
	case Retreating, Failing, Releasing:
		return givingBack(s, e, now)
	case Unassigning:
		return unassigning(s, e, now)
	case Error:
		return failed(s, e, now)
	case Deleted:
		switch e.(type) {
		case Created, Chosen, NothingFits, Claimed, ClaimLost, Refused, Stumbled, Released,
			GuestClaimed, GuestRunning, GuestFailed, GuestGone, DeleteRequested:
			return s, true // nothing happens to it any more
		}
	}
	return s, false
}

func create(s Server, e Event, now time.Time) (Server, bool) {
	switch e.(type) {
	case Created:
		s.State, s.Created = Scheduling, now
		return mark(s, now, describe(s.Ask, s.Requests)), true
	case Chosen, NothingFits, Claimed, ClaimLost, Refused, Stumbled, Released,
		GuestClaimed, GuestRunning, GuestFailed, GuestGone, DeleteRequested:
		return s, true // it does not exist yet
	}
	return s, false
}

func scheduling(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case Chosen:
		s.Round++
		s = mark(s, now, fmt.Sprintf("Placement offers %s; %s%s", count(e.Candidates, "candidate"),
			count(len(e.Choices), "choice"), also("; refused: ", e.Refused)))
		if len(e.Choices) == 0 { // not what Chosen promises; an empty claim would never end
			return fail(s, now, Error, "no choice was made of the candidates"), true
		}
		s.Choices = e.Choices
		return try(s, now), true
	case NothingFits:
		s.Round++
		s = mark(s, now, fmt.Sprintf("Placement offers %s; nothing fits: %s", count(e.Candidates, "candidate"), e.Reason))
		if e.Again && s.Round < MaxRounds {
			return s, true // its step is the same, its round another
		}
		return fail(s, now, Error, e.Reason), true
	case Refused:
		if e.Step != Schedule {
			return s, true // late
		}
		return fail(s, now, Error, e.Reason), true
	case Stumbled:
		return stumble(s, e, now), true
	case DeleteRequested:
		return end(s, now), true // it holds nothing
	case Created, Claimed, ClaimLost, Released, GuestClaimed, GuestRunning, GuestFailed, GuestGone:
		return s, true // late: from before the retreat from another host
	}
	return s, false
}

func claiming(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case Claimed:
		if e.Try != s.Try {
			return s, true // the answer to an earlier claim
		}
		choice := s.Choices[0]
		s.State, s.Host, s.Heard, s.Devices = Assigned, choice.Host, false, nil
		s.Choices = s.Choices[:1:1]
		s.Requests = serve(s.Requests, choice.Mappings)
		return mark(s, now, fmt.Sprintf("claimed on %s; its agent is to build the guest", s.Host)), true
	case ClaimLost:
		if e.Try != s.Try {
			return s, true
		}
		return lose(s, e, now), true
	case Refused:
		if e.Step != Claim {
			return s, true
		}
		return fail(s, now, Failing, e.Reason), true
	case Stumbled:
		return stumble(s, e, now), true
	case DeleteRequested:
		// A claim may be on its way this moment. The runner performs one step after the other, so Release comes after it.
		return remove(s, now, Releasing), true
	case Created, Chosen, NothingFits, Released, GuestClaimed, GuestRunning, GuestFailed, GuestGone:
		return s, true // late
	}
	return s, false
}

func assigned(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case GuestClaimed:
		if e.Host != s.Host {
			return s, true // of a host it was on before
		}
		return hear(s, e.Devices, now), true
	case GuestRunning:
		if e.Host != s.Host {
			return s, true
		}
		s = hear(s, e.Devices, now)
		s.State, s.Launched = Active, now
		return mark(s, now, "the guest runs on "+s.Host), true
	case GuestFailed:
		if e.Host != s.Host {
			return s, true
		}
		return retreat(s, e, now), true
	case DeleteRequested:
		if s.Heard {
			return remove(s, now, Unassigning), true
		}
		// The agent has told of nothing, so there may be nothing that it could tell the end of.
		return remove(s, now, Releasing), true
	case GuestGone: // of a guest of that name from before; the agent builds it anew by itself
		return s, true
	case Created, Chosen, NothingFits, Claimed, ClaimLost, Refused, Stumbled, Released:
		return s, true // late
	}
	return s, false
}

func active(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case GuestClaimed:
		if e.Host != s.Host {
			return s, true
		}
		return hear(s, e.Devices, now), true
	case GuestRunning:
		if e.Host != s.Host {
			return s, true
		}
		return hear(s, e.Devices, now), true
	case GuestFailed:
		if e.Host != s.Host {
			return s, true
		}
		// It has run, so it may have had data: it is not built anew elsewhere.
		s = mark(s, now, fmt.Sprintf("the guest failed on %s: %s", s.Host, e.Message))
		return fail(s, now, Failing, fmt.Sprintf("%s: %s", s.Host, e.Message)), true
	case DeleteRequested:
		return remove(s, now, Unassigning), true
	case GuestGone: // the agent builds it anew by itself, because it is assigned
		return s, true
	case Created, Chosen, NothingFits, Claimed, ClaimLost, Refused, Stumbled, Released:
		return s, true // late
	}
	return s, false
}

// givingBack is Retreating, Failing and Releasing: they differ in what follows.
func givingBack(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case Released:
		s.Requests, s.Choices, s.Devices, s.Heard = serve(s.Requests, nil), nil, nil, false
		s = mark(s, now, "holds nothing in Placement")
		switch s.State {
		case Releasing:
			return end(s, now), true
		case Failing:
			s.State, s.Host = Error, ""
		default:
			s.State, s.Host = Scheduling, ""
		}
		return s, true
	case Stumbled:
		return stumble(s, e, now), true
	case DeleteRequested:
		if s.State == Releasing {
			return s, true // asked for already
		}
		return remove(s, now, Releasing), true
	case Created, Chosen, NothingFits, Claimed, ClaimLost, Refused, GuestClaimed, GuestRunning, GuestFailed, GuestGone:
		return s, true // late; whatever was claimed is given back
	}
	return s, false
}

func unassigning(s Server, e Event, now time.Time) (Server, bool) {
	gone := func(host string) (Server, bool) {
		if host != s.Host {
			return s, true
		}
		s.State = Releasing
		return mark(s, now, "nothing of the guest is left on "+s.Host), true
	}
	switch e := e.(type) {
	case GuestGone:
		return gone(e.Host)
	case GuestFailed: // its agent promises the same: nothing is left
		return gone(e.Host)
	case Created, Chosen, NothingFits, Claimed, ClaimLost, Refused, Stumbled, Released,
		GuestClaimed, GuestRunning, DeleteRequested:
		return s, true // late, or asked for already
	}
	return s, false
}

func failed(s Server, e Event, now time.Time) (Server, bool) {
	switch e.(type) {
	case DeleteRequested:
		return end(s, now), true // it holds nothing
	case Created, Chosen, NothingFits, Claimed, ClaimLost, Refused, Stumbled, Released,
		GuestClaimed, GuestRunning, GuestFailed, GuestGone:
		return s, true // late
	}
	return s, false
}

// try begins the claim of the first choice.
func try(s Server, now time.Time) Server {
	s.State = Claiming
	s.Try++
	return mark(s, now, "claims "+describeChoice(s.Choices[0], s.Requests))
}

// lose goes on to the next choice, or asks again, or gives up.
func lose(s Server, e ClaimLost, now time.Time) Server {
	s = mark(s, now, fmt.Sprintf("lost the claim on %s: %s", s.Choices[0].Host, e.Reason))
	s.Choices = s.Choices[1:]
	switch {
	case len(s.Choices) > 0:
		return try(s, now)
	case s.Round < MaxRounds:
		s.State = Scheduling
		return mark(s, now, "all choices were lost; asks again")
	}
	return fail(s, now, Failing, fmt.Sprintf("others were faster in each of %d rounds, last: %s", s.Round, e.Reason))
}

// retreat leaves the host where the guest failed.
func retreat(s Server, e GuestFailed, now time.Time) Server {
	s = mark(s, now, fmt.Sprintf("the guest failed on %s: %s", e.Host, e.Message))
	if s.Round >= MaxRounds {
		reason := fmt.Sprintf("%s: %s", e.Host, e.Message)
		return fail(s, now, Failing, fmt.Sprintf("gave up after %d rounds, last: %s", s.Round, reason))
	}
	s.Excluded = maps.Clone(s.Excluded)
	if s.Excluded == nil {
		s.Excluded = map[string]string{}
	}
	s.Excluded[e.Host] = e.Message
	s.State = Retreating
	return s
}

// fail sets the sentence that the user reads. Reasons come from other services, with a full stop or without.
func fail(s Server, now time.Time, to State, reason string) Server {
	bare := func(text string) string { return strings.TrimRight(text, ". ") }
	reason = bare(reason)
	text := "No valid host was found: " + reason
	if s.State == Active {
		text = "The server failed on " + reason
	}
	if len(s.Excluded) > 0 {
		var tried []string
		for _, host := range slices.Sorted(maps.Keys(s.Excluded)) {
			tried = append(tried, host+": "+bare(s.Excluded[host]))
		}
		text += "; tried before: " + strings.Join(tried, "; ")
	}
	text += "."
	s.State = to
	s.Fault = &Fault{Code: 500, Message: text, Created: now}
	if to == Error {
		s.Host, s.Choices = "", nil
	}
	return mark(s, now, text)
}

func stumble(s Server, e Stumbled, now time.Time) Server {
	if !slices.Contains(s.Steps(), e.Step) {
		return s // late
	}
	return mark(s, now, fmt.Sprintf("cannot %s now, will try again: %s", e.Step, e.Reason))
}

// hear notes what the agent says that the guest holds.
func hear(s Server, devices []schedule.Picked, now time.Time) Server {
	if s.Heard && slices.Equal(s.Devices, devices) {
		return s
	}
	s.Heard, s.Devices = true, slices.Clone(devices)
	if len(devices) == 0 {
		return mark(s, now, "the agent of "+s.Host+" is at it")
	}
	var picked []string
	for _, d := range devices {
		picked = append(picked, fmt.Sprintf("%s for %s", d.Address, requestName(s.Requests, d.RequestID)))
	}
	return mark(s, now, "the agent of "+s.Host+" picked "+strings.Join(picked, ", "))
}

// remove begins the end.
func remove(s Server, now time.Time, to State) Server {
	s.State, s.Requested = to, now
	return mark(s, now, "is to be deleted")
}

func end(s Server, now time.Time) Server {
	s.State, s.Ended, s.Choices = Deleted, now, nil
	if s.Requested.IsZero() {
		s.Requested = now
	}
	return mark(s, now, "deleted")
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
