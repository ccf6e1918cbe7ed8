package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// onReleased continues after the allocations of the server's own consumer have been released.
func onReleased(s Server, now time.Time) Server {
	s.Requests, s.Choices, s.Devices, s.Cells, s.Reported = withProviders(s.Requests, nil), nil, nil, nil, false
	s = addHistory(s, now, "released its allocations in Placement")
	switch s.State {
	case DeletingAllocation:
		return finishDeletion(s, now)
	case Failing:
		s.State = Error
	case Offloading:
		s.State = Shelved
		s.Shelved, s.Stopped, s.Power = true, false, On
		s = addHistory(s, now, "shelved")
	case Rescheduling:
		s.State = Scheduling
	case Moving:
		s = advance(s, destinationReleased{}, now)
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
	if s.Move != nil && s.Move.planned() {
		s = restoreSource(s)
	}
	has := s.presence()
	if s.Move != nil {
		if s = advance(s, moveCancelled{}, now); s.Move != nil {
			return addHistory(s, now, "deletion requested")
		}
	}
	switch has {
	case absent:
		return finishDeletion(s, now)
	case existing, removing:
		s.State = DeletingGuest
	case incoming, building:
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
