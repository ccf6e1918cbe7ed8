package device

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Sync applies the host's present offers. A device that is gone is removed from the set; if it is held, it
// stays until it is freed. A held device whose offer has changed stays as it was claimed, also until it is freed.
func (s Set) Sync(offers []Offer) (Set, []Change) {
	n := s.clone()
	seen := make(map[ID]bool, len(offers))
	why := map[ID]string{}
	for _, o := range offers {
		id := o.ID()
		seen[id] = true
		was := n.entries[id]
		is := was.offered(o)
		switch {
		case was.latest == nil && is.latest != nil:
			why[id] = fmt.Sprintf("its device_spec entry or its properties have changed while %s holds it; they take "+
				"effect when it is freed", is.Holder)
		case was.Gone:
			why[id] = "it is back"
		}
		n.entries[id] = is
	}
	for id, e := range s.entries {
		switch {
		case seen[id]:
		case !e.held():
			delete(n.entries, id)
		case !e.Gone:
			e.Gone, e.latest = true, nil
			n.entries[id] = e
			why[id] = fmt.Sprintf("the host does not offer it any more while %s holds it: it is gone, or the configuration "+
				"does not allow it; it leaves when it is freed", e.Holder)
		}
	}
	return n, s.changes(n, why)
}

// Allocate marks the claims of a holder as allocated: its guest runs with them. A repetition changes nothing.
func (s Set) Allocate(holder resource.ConsumerID) (Set, []Change) {
	n := s.clone()
	for id, e := range n.entries {
		if e.held() && e.Holder == holder {
			e.State = pci.Allocated
			n.entries[id] = e
		}
	}
	return n, s.changes(n, nil)
}

// Free frees all devices of a holder. Devices that are gone are removed from the set; changed ones get their present
// offer. A holder without devices changes nothing.
func (s Set) Free(holder resource.ConsumerID) (Set, []Change) {
	n := s.clone()
	for id, e := range s.entries {
		if e.held() && e.Holder == holder {
			n.free(id)
		}
	}
	return n, s.changes(n, nil)
}

// FreeOne frees one device of a holder as Free does. A device of another holder changes nothing.
func (s Set) FreeOne(holder resource.ConsumerID, id ID) (Set, []Change) {
	e := s.entries[id]
	if !e.held() || e.Holder != holder {
		return s, nil
	}
	n := s.clone()
	n.free(id)
	return n, s.changes(n, nil)
}

// free frees a held device in place.
func (s Set) free(id ID) {
	switch e := s.entries[id]; {
	case e.Gone:
		delete(s.entries, id)
	case e.latest != nil:
		s.entries[id] = entry{Offer: *e.latest}
	default:
		s.entries[id] = entry{Offer: e.Offer.Unheld()}
	}
}

// Rename moves the devices of a holder to another consumer id, as when a server's source allocation becomes its
// migration's. An unknown id changes nothing.
func (s Set) Rename(from, to resource.ConsumerID) Set {
	n := s.clone()
	for id, e := range s.entries {
		if e.held() && e.Holder == from {
			e.Holder = to
			n.entries[id] = e
		}
	}
	return n
}

// Spend marks a device for one-time use as used, or, with false, as cleaned. An unknown device changes nothing.
func (s Set) Spend(id ID, spent bool) Set {
	e, found := s.entries[id]
	if !found || e.Spent == spent {
		return s
	}
	n := s.clone()
	e.Spent = spent
	if e.latest != nil {
		fresh := *e.latest
		fresh.Spent = spent
		e.latest = &fresh
	}
	n.entries[id] = e
	return n
}

// changes returns the differences between two sets, by ID.
func (s Set) changes(n Set, why map[ID]string) []Change {
	all := append(s.ids(), n.ids()...)
	slices.SortFunc(all, ID.Compare)
	var list []Change
	for _, id := range slices.Compact(all) {
		c := Change{ID: id, Now: pci.Removed, Why: why[id]}
		if _, there := s.entries[id]; there {
			c.Was = s.state(id)
		}
		if _, there := n.entries[id]; there {
			c.Now = n.state(id)
		}
		if c.Was != c.Now || c.Why != "" {
			list = append(list, c)
		}
	}
	return list
}
