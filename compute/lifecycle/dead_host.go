package lifecycle

import (
	"slices"
	"time"
)

// onHostDead records that nothing of the server is left on a dead host. The event is repeated as long as the host is
// declared dead.
func onHostDead(s Server, host string, now time.Time) Server {
	if slices.ContainsFunc(s.Leftovers, func(l Residence) bool { return l.Host == host && !l.Gone }) {
		s.Leftovers = slices.Clone(s.Leftovers)
		for i := range s.Leftovers {
			s.Leftovers[i].Gone = s.Leftovers[i].Gone || s.Leftovers[i].Host == host
		}
		s = addHistory(s, now, "host "+host+" "+hostDead+"; releasing the leftover there")
	}
	if s.Move != nil && s.Move.From.Host == host {
		s = advance(s, sourceDead{to: s.Host, prepared: s.Reported}, now)
	}
	if s.AllocatedHost() != host {
		return s
	}
	switch s.State {
	case Moving:
		return advance(s, destinationDead{s.Host, unlessAgain(s, lastFailure(s, hostDead))}, now)
	case DeletingGuest, Shelving:
		return onGuestGone(s, hostDead, now)
	case AwaitingMinCount, BindingPorts, Spawning:
		return reschedule(s, hostDead, now)
	case Active:
		if !s.ShelvedAt.IsZero() { // the image has its disk
			return onGuestGone(offload(s, "host "+host+" "+hostDead, now), hostDead, now)
		}
		return portChangeOnDeadHost(endSoftDeleting(s, now), now)
	}
	return s // Active: an operator may evacuate the server
}
