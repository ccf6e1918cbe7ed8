package reconcile

import (
	"github.com/openberth/berth/agent/reconcile/guests"
	"github.com/openberth/berth/agent/vfconfig"
)

// AssignedVFs returns the VFs of networks that guests have which are not stopped.
func (s *State) AssignedVFs() (out []vfconfig.Assigned) {
	for _, holder := range s.core.Set.Holders() {
		g, exists := s.core.Guests[string(holder)]
		if !exists || g.Departed || g.Stopped {
			continue
		}
		out = append(out, guests.AssignedVFs(g, s.core.Set.Held(holder))...)
	}
	return out
}

// GuestEpoch counts builds, removals and migrations of guests; AssignedVFs may change with it.
func (s *State) GuestEpoch() int { return s.core.GuestEpoch }
