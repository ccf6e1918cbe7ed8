package device

import (
	"github.com/openberth/berth/pci"
)

// State is the state of a device, in Nova's words.
type State string

// The states.
const (
	Available   State = "available"   // free
	Claimed     State = "claimed"     // held by a server whose guest is being built
	Allocated   State = "allocated"   // held by a server whose guest runs
	Unclaimable State = "unclaimable" // free itself, but its PF or one of its VFs is claimed
	Unavailable State = "unavailable" // free itself, but its PF or one of its VFs is allocated
	Removed     State = "removed"     // gone from the host or from device_spec, and no longer in the set
)

// state derives the state of a device in the set.
func (s Set) state(id ID) State {
	e := s.entries[id]
	switch {
	case e.held() && e.allocated:
		return Allocated
	case e.held():
		return Claimed
	}
	switch by, blocked := s.blocker(id); {
	case !blocked:
		return Available
	case s.entries[by].allocated:
		return Unavailable
	default:
		return Unclaimable
	}
}

// blocker returns the held PF of a VF, or a held VF of a PF; of several VFs an allocated one, and of those the first.
// A held device that has changed counts both as it was claimed and as it is now.
func (s Set) blocker(id ID) (by ID, blocked bool) {
	d := s.entries[id].offer.Device
	if d.Parent != nil {
		pf := PCI(*d.Parent)
		return pf, s.entries[pf].held()
	}
	for other, e := range s.entries {
		if !e.held() || !e.isVFOf(id) {
			continue
		}
		first := s.entries[by]
		if !blocked || e.allocated && !first.allocated || e.allocated == first.allocated && other.Compare(by) < 0 {
			by, blocked = other, true
		}
	}
	return by, blocked
}

// isVFOf reports whether a device is a VF of a PF, as it was claimed or as it is now.
func (e entry) isVFOf(pf ID) bool {
	of := func(d pci.Device) bool { return d.Parent != nil && PCI(*d.Parent) == pf }
	return of(e.offer.Device) || e.latest != nil && of(e.latest.Device)
}

// heldPF returns the PF of a held VF when the PF is held too. A device at the PF's address counts only if it was
// claimed as a PF or with an unknown type. Any other type means that it replaced the PF after the VF was claimed.
func (s Set) heldPF(e entry) (pf entry, both bool) {
	if !e.held() || e.offer.Device.Parent == nil {
		return entry{}, false
	}
	pf = s.entries[PCI(*e.offer.Device.Parent)]
	kind := pf.offer.Device.Type
	return pf, pf.held() && (kind == pci.Physical || kind == "")
}
