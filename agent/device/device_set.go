// Package device is the state machine of a host's PCI devices: which are held and by which consumer, which are free,
// and which are blocked because their PF or one of their VFs is held.
//
//	            Claim                Allocate
//	available ─────────▶ claimed ─────────────▶ allocated        of a relative: unclaimable, then unavailable
//	    ▲                   │                       │
//	    └───────────────────┴───────── Free ────────┘            gone and free: removed, no longer in the set
//
// Only the holder of a device is stored. That a device is unclaimable or unavailable is derived from its relatives, so
// it cannot be forgotten when they are freed. A Set is a value: its operations return another Set, so that the caller
// can discard a step that could not be journalled. The package does no I/O.
package device

import (
	"maps"
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Entry is one device of a Set, with its state. While it is held, the offer is as it was when it was claimed. One that
// is gone is removed from the set when it is freed.
type Entry struct{ Offer }

// Set is all devices that a host offers or that are held. The zero value is empty.
type Set struct {
	entries  map[ID]entry
	disabled map[ID]string // reasons; it may have devices that the host does not offer
}

// entry is the stored state of a device.
type entry struct {
	Offer         // State is pci.Claimed, pci.Allocated, or empty while the device is not held
	latest *Offer // the host's present offer, while a holder keeps the device as it was claimed
}

func (e entry) held() bool { return e.Holder != "" }

// offered returns the entry of a device with the host's present offer.
func (e entry) offered(now Offer) entry {
	now = now.Unheld()
	e.Gone, e.latest = false, nil
	if e.held() && e.ResourceClass != "" && !e.same(now) {
		e.latest = &now
		return e
	}
	if e.held() && e.Provider != "" {
		now.Provider = e.Provider
	}
	if e.held() && e.ResourceClass != "" { // its holder has taken this many
		now.Slices = e.Slices
	}
	now.Spent = now.Spent || e.held() && e.Spent
	// the hypervisor that bound the driver for the guest also restores it
	if e.held() && e.ResourceClass != "" && e.Managed != now.Managed {
		fresh := now
		e.latest, now.Managed = &fresh, e.Managed
	}
	now.State, now.Holder, now.RequestID = e.State, e.Holder, e.RequestID
	e.Offer = now
	return e
}

// Len returns the number of devices.
func (s Set) Len() int { return len(s.entries) }

// At returns the device with an ID.
func (s Set) At(id ID) (Entry, bool) {
	e, found := s.entries[id]
	if !found {
		return Entry{}, false
	}
	e.State, e.Disabled = s.state(id), s.whyDisabled(id) != ""
	return Entry{e.Offer}, true
}

// Entries lists all devices by address.
func (s Set) Entries() []Entry {
	list := make([]Entry, 0, len(s.entries))
	for _, id := range s.ids() {
		e, _ := s.At(id)
		list = append(list, e)
	}
	return list
}

// Claims lists the held devices, by address: those that the journal must have, and that the provider tree must keep.
func (s Set) Claims() []Claim { return s.claims(func(entry) bool { return true }) }

// Held lists the devices of one holder, by address.
func (s Set) Held(holder resource.ConsumerID) []Claim {
	return s.claims(func(e entry) bool { return e.Holder == holder })
}

// claims lists the held devices that a condition holds for, by address.
func (s Set) claims(of func(entry) bool) (list []Claim) {
	var ids []ID
	for id, e := range s.entries {
		if e.held() && of(e) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, ID.Compare)
	for _, id := range ids {
		e, _ := s.At(id)
		list = append(list, Claim{e.Offer})
	}
	return list
}

// Holders lists the holders of devices, sorted.
func (s Set) Holders() []resource.ConsumerID {
	var list []resource.ConsumerID
	for _, e := range s.entries {
		if e.held() {
			list = append(list, e.Holder)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (s Set) ids() []ID {
	list := make([]ID, 0, len(s.entries))
	for id := range s.entries {
		list = append(list, id)
	}
	slices.SortFunc(list, ID.Compare)
	return list
}

func (s Set) clone() Set {
	out := make(map[ID]entry, len(s.entries)+1)
	maps.Copy(out, s.entries)
	return Set{entries: out, disabled: s.disabled}
}

// state derives the state of a device in the set.
func (s Set) state(id ID) pci.State {
	if e := s.entries[id]; e.held() {
		return e.State
	}
	switch by, blocked := s.blocker(id); {
	case !blocked:
		return pci.Available
	case s.entries[by].State == pci.Allocated:
		return pci.Unavailable
	default:
		return pci.Unclaimable
	}
}

// blocker returns the held PF of a VF, or a held VF of a PF; of several VFs an allocated one, and of those the first.
// A held device that has changed counts both as it was claimed and as it is now.
func (s Set) blocker(id ID) (by ID, blocked bool) {
	d := s.entries[id].Device
	if d.Parent != nil {
		pf := PCI(*d.Parent)
		return pf, s.entries[pf].held()
	}
	for other, e := range s.entries {
		if !e.held() || !e.isVFOf(id) {
			continue
		}
		first := s.entries[by]
		if !blocked || e.State == pci.Allocated && first.State != pci.Allocated ||
			e.State == first.State && other.Compare(by) < 0 {
			by, blocked = other, true
		}
	}
	return by, blocked
}

// isVFOf reports whether a device is a VF of a PF, as it was claimed or as it is now.
func (e entry) isVFOf(pf ID) bool {
	of := func(d pci.Device) bool { return d.Parent != nil && PCI(*d.Parent) == pf }
	return of(e.Device) || e.latest != nil && of(e.latest.Device)
}
