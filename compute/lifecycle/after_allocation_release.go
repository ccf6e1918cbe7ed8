package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// onReleased continues after the allocations of the server's own consumer have been released.
func onReleased(s Server, now time.Time) Server {
	s.Requests, s.Choices, s.Devices, s.Cells, s.Reported = WithProviders(s.Requests, nil), nil, nil, nil, false
	s = addHistory(s, now, "released its allocations in Placement")
	s = releasedPorts(s)
	switch s.State {
	case DeletingAllocation:
		return finishDeletion(s, now)
	case Failing:
		s.State = Error
	case Offloading:
		s.State = Shelved
		s.Shelved, s.Actual, s.Power = true, On, On
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
	return endCleanup(s, now)
}
