package reconcile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/slotsurvey"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// interpretSlots adds the I/O slots of a PowerVM host to what an observation means. They are always reported.
func (s *syncer) interpretSlots(v *view, slots facts.IOSlots, actual provider.Tree) {
	f := slotsurvey.Facts{Host: s.config.Host, System: slots.System, Rules: slots.Rules, PlainNames: slots.PlainNames,
		ClassFromDevice: slots.ClassFromDevice, Actual: actual}
	v.slots = (*slotFacts)(&f)
	v.facts.Report = true
	v.offers, v.present = slotsurvey.Offers(f, v.identity.Provider), slotsurvey.Devices(slots.System)
	if !slots.System.Reported || slots.System.Incomplete { // a slot that is not listed may exist
		v.offers, v.present = keepOffers(v.offers, s.set), keepDevices(v.present, s.scanned)
	}
}

// PlainSlotNames returns the names of the providers of the slots that a host offers, if they do not contain the host:
// then another host may have a provider with the same name.
func PlainSlotNames(host string, machine facts.Facts) (names []string) {
	if machine.Slots == nil || !machine.Slots.PlainNames {
		return nil
	}
	verdicts, _ := slotsurvey.Verdicts(slotsurvey.Facts{Host: host, System: machine.Slots.System,
		Rules: machine.Slots.Rules, PlainNames: true})
	for _, v := range verdicts {
		if v.Provider != "" {
			names = append(names, v.Provider)
		}
	}
	return names
}

// keepOffers adds the offers of the devices that are not among them.
func keepOffers(now []device.Offer, before device.Set) []device.Offer {
	for _, e := range before.Entries() {
		if !e.Gone && !slices.ContainsFunc(now, func(o device.Offer) bool { return o.ID() == e.ID() }) {
			now = append(now, e.Unheld())
		}
	}
	return now
}

// keepDevices adds the devices of the last observation that are not among those of this one.
func keepDevices(now, before []pci.Device) []pci.Device {
	for _, d := range before {
		if !slices.ContainsFunc(now, func(o pci.Device) bool { return o.Address == d.Address }) {
			now = append(now, d)
		}
	}
	return now
}

// isSlot reports whether a claim is on an I/O slot.
func isSlot(c device.Claim) bool { return c.Device.Address.DRC != 0 }

// withHeld returns the facts with the slots that guests hold; nil for a host without I/O slots.
func (f *slotFacts) withHeld(held []device.Claim) *slotFacts {
	if f == nil {
		return nil
	}
	out := *f
	out.Held = nil
	for _, c := range held {
		if isSlot(c) {
			out.Held = append(out.Held, slotsurvey.Claim{Slot: ioslot.Index(c.Device.Address.DRC), Holder: c.Holder,
				Class: c.ResourceClass})
		}
	}
	return &out
}

// addSlots sets the tree and the notes of the aim: those of package survey and, on a PowerVM host, those of its I/O
// slots. uses may be nil for a draft. Invalid: two paragraphs of the inventory file allow one slot.
func (d *planning) addSlots(uses treeplan.Uses) error {
	d.aim.Tree, d.notes = d.host, d.hostNotes
	if d.slots == nil {
		return nil
	}
	f := slotsurvey.Facts(*d.slots)
	f.Consumers = uses
	result, err := slotsurvey.Desired(d.host, f)
	if err != nil {
		return err
	}
	d.aim.Tree, d.notes = result.Tree, slices.Concat(d.hostNotes, result.Notes)
	d.aim.Orphans = map[provider.ID]bool{}
	for _, p := range result.Orphans {
		d.aim.Orphans[p.ID] = true
	}
	d.aim.Returned = maps.Clone(d.aim.Returned)
	for id := range result.Slots { // the reserved amount of a slot is computed each time
		d.aim.Returned[id] = true
	}
	return nil
}

// slotRequests returns one request for each I/O slot that an allocation names and the assignment does not, as for a
// flavor with plain groups of resources. The refusal is a sentence when a provider is named like a slot without being
// one: the guest would lack a device (R47, R48).
func (c *core) slotRequests(want host.Server, held placement.ConsumerAllocation) (list []pci.Request, refusal string) {
	named := map[provider.ID]bool{}
	for _, r := range want.Requests {
		for _, p := range r.Providers {
			named[provider.ID(p)] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(held.Allocation)) {
		p, ours := c.tree.ByID(id)
		_, index, slot, err := ioslot.ParseProviderName(p.Name)
		if !ours || !slot || named[id] {
			continue
		}
		if err != nil {
			return nil, fmt.Sprintf("server %s has an allocation of a provider that is not an I/O slot: %s", want.ID,
				fault.TextOf(err))
		}
		for _, class := range held.Allocation[id].Sorted() {
			if now, other := c.classChanged(id, class); other {
				return nil, fmt.Sprintf("server %s has %s of provider %s, but the inventory file now gives it %s", want.ID, class,
					p.Name, now)
			}
			list = append(list, pci.Request{ID: "io-slot-" + index.String(), Count: held.Allocation[id][class],
				Requirement: pci.Requirement{Class: class}, Providers: []resource.ProviderID{id}})
		}
	}
	return list, ""
}
