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
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Offer is a device that device_spec offers.
type Offer struct {
	Device   pci.Device
	Provider resource.ProviderID // that counts it in Placement, or "" while it is not there
	Name     string              // of that provider, or ""
	Class    resource.Class
	Traits   []resource.Trait // sorted
	ForPorts bool             // only for network ports, never for an alias

	RemoteManaged  bool     // of its rule; likewise never for an alias
	Managed        pci.Flag // of its rule; No: the hypervisor does not change the kernel's driver
	LiveMigratable pci.Flag // of its rule
	Spent          bool     // for one-time use and used: it cannot be claimed until it is cleaned
}

// same reports whether two offers are equal for a holder of the device: a new driver or network name does not matter,
// nor does the class of a device that no provider counts yet.
func (o Offer) same(p Offer) bool {
	return sameDevice(o.Device, p.Device) && (o.Class == p.Class || o.Provider == "") &&
		(o.Provider == p.Provider || o.Provider == "" || p.Provider == "")
}

// ID returns the device's ID.
func (o Offer) ID() ID { return PCI(o.Device.Address) }

// Claim is one device held by a consumer. A claim from a journal needs only Device.Address, Holder, Request, Provider
// and State; the rest then comes from the device's offer.
type Claim struct {
	Offer
	Holder  resource.ConsumerID
	Request string // request_id of the PCI request that it serves
	State   State  // Claimed or Allocated
}

// Entry is one device of a Set in the form of the host report.
type Entry struct {
	Offer         // while it is held: as it was when it was claimed
	State   State // never Removed
	Holder  resource.ConsumerID
	Request string
	Gone    bool // no longer on the host or in device_spec; it is removed from the set when it is freed
}

// Change is the effect of an operation on one device.
type Change struct {
	ID  ID
	Was State // "" for a new device
	Now State
	Why string // a sentence, or "" when the states suffice
}

// String returns the change in a form for logs.
func (c Change) String() string {
	was := c.Was
	if was == "" {
		was = "new"
	}
	text := fmt.Sprintf("%s: %s, now %s", c.ID, was, c.Now)
	if c.Was == c.Now {
		text = fmt.Sprintf("%s: %s", c.ID, c.Now)
	}
	if c.Why != "" {
		text += ": " + c.Why
	}
	return text
}

// Set is all devices that a host offers or that are held. The zero value is empty.
type Set struct {
	entries map[ID]entry
}

// entry is the stored state of a device.
type entry struct {
	offer     Offer
	latest    *Offer // the host's present offer, while a holder keeps the device as it was claimed
	holder    resource.ConsumerID
	request   string
	allocated bool
	gone      bool
}

func (e entry) held() bool { return e.holder != "" }

// New returns the set of a host without claims.
func New(offers []Offer) Set {
	s, _ := Set{}.Sync(offers)
	return s
}

// Restore returns the set after a restart: the host's present offers and the journal's claims. A claim on a device
// that is no longer offered is kept, as a device that is gone. Internal when claims contradict each other: one device
// with two holders, or a PF and one of its VFs.
func Restore(offers []Offer, claims []Claim) (Set, error) {
	const op = "device.Restore"
	s := New(offers)
	for _, c := range claims {
		now, offered := s.entries[c.ID()]
		if now.held() {
			return Set{}, fault.New(fault.Internal, op,
				"the journal gives %s to both %s and %s; find out which guest has it and correct the journal",
				c.Device.Address, now.holder, c.Holder)
		}
		if c.Holder == "" {
			return Set{}, fault.New(fault.Internal, op, "the journal has a claim on %s without a holder", c.Device.Address)
		}
		e := entry{offer: c.Offer, holder: c.Holder, request: c.Request, allocated: c.State == Allocated, gone: true}
		if offered {
			e = e.offered(now.offer)
		}
		s.entries[c.ID()] = e
	}
	for id, e := range s.entries {
		if pf, both := s.heldPF(e); both {
			return Set{}, fault.New(fault.Internal, op,
				"the journal gives %s to %s and %s to %s, but one is the PF of the other; find out which guest runs and correct "+
					"the journal",
				id, e.holder, pf.offer.Device.Address, pf.holder)
		}
	}
	return s, nil
}

// offered returns the entry of a device with the host's present offer.
func (e entry) offered(now Offer) entry {
	e.gone, e.latest = false, nil
	if e.held() && e.offer.Class != "" && !e.offer.same(now) {
		e.latest = &now
		return e
	}
	if e.held() && e.offer.Provider != "" {
		now.Provider = e.offer.Provider
	}
	now.Spent = now.Spent || e.held() && e.offer.Spent
	// the hypervisor that bound the driver for the guest also restores it
	if e.held() && e.offer.Class != "" && e.offer.Managed != now.Managed {
		fresh := now
		e.latest, now.Managed = &fresh, e.offer.Managed
	}
	e.offer = now
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
	return Entry{Offer: e.offer, State: s.state(id), Holder: e.holder, Request: e.request, Gone: e.gone}, true
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
func (s Set) Claims() []Claim {
	var list []Claim
	for _, e := range s.Entries() {
		if e.Holder != "" {
			list = append(list, Claim{Offer: e.Offer, Holder: e.Holder, Request: e.Request, State: e.State})
		}
	}
	return list
}

// Held lists the devices of one holder, by address.
func (s Set) Held(holder resource.ConsumerID) []Claim {
	return slices.DeleteFunc(s.Claims(), func(c Claim) bool { return c.Holder != holder })
}

// Holders lists the holders of devices, sorted.
func (s Set) Holders() []resource.ConsumerID {
	var list []resource.ConsumerID
	for _, c := range s.Claims() {
		list = append(list, c.Holder)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (s Set) ids() []ID {
	return slices.SortedFunc(maps.Keys(s.entries), ID.Compare)
}

func (s Set) clone() Set {
	out := make(map[ID]entry, len(s.entries)+1)
	maps.Copy(out, s.entries)
	return Set{entries: out}
}
