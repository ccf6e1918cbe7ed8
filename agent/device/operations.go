package device

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Refusal is the sentence why a claim cannot be met; "" is none.
type Refusal string

// Sync takes in what the host offers now. A device that is gone leaves the set, unless somebody holds it: then it stays
// until it is freed. A held device whose offer is another one now stays as it was claimed, also until it is freed.
func (s Set) Sync(offers []Offer) (Set, []Change) {
	n := s.clone()
	seen := make(map[pci.Address]bool, len(offers))
	why := map[pci.Address]string{}
	for _, o := range offers {
		address := o.Device.Address
		seen[address] = true
		was := n.entries[address]
		is := was.offered(o)
		switch {
		case was.latest == nil && is.latest != nil:
			why[address] = fmt.Sprintf("what device_spec or the host says of it has changed while %s holds it; that counts when it is freed", is.holder)
		case was.gone:
			why[address] = "it is back"
		}
		n.entries[address] = is
	}
	for address, e := range s.entries {
		switch {
		case seen[address]:
		case !e.held():
			delete(n.entries, address)
		case !e.gone:
			e.gone, e.latest = true, nil
			n.entries[address] = e
			why[address] = fmt.Sprintf("it is gone from the host or from device_spec while %s holds it; it leaves when it is freed", e.holder)
		}
	}
	return n, s.changes(n, why)
}

// Allocate says that the holder's guest runs with what it has claimed. Allocating again changes nothing.
func (s Set) Allocate(holder resource.ConsumerID) (Set, []Change) {
	n := s.clone()
	for address, e := range n.entries {
		if e.held() && e.holder == holder {
			e.allocated = true
			n.entries[address] = e
		}
	}
	return n, s.changes(n, nil)
}

// Free takes everything from the holder. What is gone leaves the set; what changed meanwhile is what it is now. Freeing
// who holds nothing changes nothing.
func (s Set) Free(holder resource.ConsumerID) (Set, []Change) {
	n := s.clone()
	for address, e := range s.entries {
		switch {
		case !e.held() || e.holder != holder:
		case e.gone:
			delete(n.entries, address)
		case e.latest != nil:
			n.entries[address] = entry{offer: *e.latest}
		default:
			n.entries[address] = entry{offer: e.offer}
		}
	}
	return n, s.changes(n, nil)
}

// Rename gives what one holder has to another name of the same holder, as when a server's source becomes its migration's. A name
// that holds nothing changes nothing.
func (s Set) Rename(from, to resource.ConsumerID) Set {
	n := s.clone()
	for address, e := range s.entries {
		if e.held() && e.holder == from {
			e.holder = to
			n.entries[address] = e
		}
	}
	return n
}

// Spend says that a device for one-time use has been used, or, with false, that it has been cleaned. A device that is not in the set
// changes nothing.
func (s Set) Spend(address pci.Address, spent bool) Set {
	e, found := s.entries[address]
	if !found || e.offer.Spent == spent {
		return s
	}
	n := s.clone()
	e.offer.Spent = spent
	if e.latest != nil {
		fresh := *e.latest
		fresh.Spent = spent
		e.latest = &fresh
	}
	n.entries[address] = e
	return n
}

// changes compares two sets, by address.
func (s Set) changes(n Set, why map[pci.Address]string) []Change {
	all := append(s.addresses(), n.addresses()...)
	slices.SortFunc(all, pci.Address.Compare)
	var list []Change
	for _, address := range slices.Compact(all) {
		c := Change{Address: address, Now: Removed, Why: why[address]}
		if _, there := s.entries[address]; there {
			c.Was = s.state(address)
		}
		if _, there := n.entries[address]; there {
			c.Now = n.state(address)
		}
		if c.Was != c.Now || c.Why != "" {
			list = append(list, c)
		}
	}
	return list
}
