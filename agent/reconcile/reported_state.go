package reconcile

import (
	"github.com/openberth/berth/agent/vfconfig"
)

// AssignedVFs returns the VFs of networks that guests have which are not stopped.
func (s *State) AssignedVFs() (out []vfconfig.Assigned) {
	for _, holder := range s.set.Holders() {
		g, exists := s.guests[string(holder)]
		if !exists || g.Departed || g.Stopped {
			continue
		}
		out = append(out, assignedVFs(g, s.set.Held(holder))...)
	}
	return out
}

// GuestEpoch counts builds, removals and migrations of guests; AssignedVFs may change with it.
func (s *State) GuestEpoch() int { return s.guestEpoch }
