package device

import (
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// New returns the set of a host without claims.
func New(offers []Offer) Set {
	s, _ := Set{}.Sync(offers)
	return s
}

// Restore returns the set after a restart: the host's present offers and the journal's claims. A claim on a device
// that is no longer offered is kept, as a device that is gone. Internal when claims contradict each other: one device
// with two holders, or a PF and one of its VFs.
func Restore(offers []Offer, claims []Claim) (Set, error) {
	s := New(offers)
	for _, c := range claims {
		now, offered := s.entries[c.ID()]
		if now.held() {
			return Set{}, fault.New(fault.Internal,
				"the journal gives %s to both %s and %s; find out which guest has it and correct the journal",
				c.Device.Address, now.Holder, c.Holder)
		}
		if c.Holder == "" {
			return Set{}, fault.New(fault.Internal, "the journal has a claim on %s without a holder", c.Device.Address)
		}
		e := entry{Offer: c.Offer}
		e.Gone = true
		if e.State != pci.Allocated {
			e.State = pci.Claimed
		}
		if offered {
			e = e.offered(now.Offer)
		}
		s.entries[c.ID()] = e
	}
	for id, e := range s.entries {
		if pf, both := s.heldPF(e); both {
			return Set{}, fault.New(fault.Internal,
				"the journal gives %s to %s and %s to %s, but one is the PF of the other; find out which guest runs and correct "+
					"the journal",
				id, e.Holder, pf.Device.Address, pf.Holder)
		}
	}
	return s, nil
}

// heldPF returns the PF of a held VF when the PF is held too. A device at the PF's address counts only if it was
// claimed as a PF or with an unknown type. Any other type means that it replaced the PF after the VF was claimed.
func (s Set) heldPF(e entry) (pf entry, both bool) {
	if !e.held() || e.Device.Parent == nil {
		return entry{}, false
	}
	pf = s.entries[PCI(*e.Device.Parent)]
	kind := pf.Device.Type
	return pf, pf.held() && (kind == pci.Physical || kind == "")
}
