package sync

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// restore returns the device set after a restart. Devices that guests have are claimed for them. The other
// claims of the journal are kept, except those on a device that another guest has: they are returned as conflicts.
func restore(offers []device.Offer, written journal.State, guests []hypervisor.Guest) (device.Set,
	[]state.ClaimConflict, error) {
	var claims []device.Claim
	var conflicts []state.ClaimConflict
	holder := map[device.ID]resource.ConsumerID{}
	add := func(c device.Claim, source string) {
		id := c.ID()
		if by, taken := holder[id]; taken {
			if by != c.Holder {
				conflicts = append(conflicts, state.ClaimConflict{Server: string(c.Holder), Device: id, Sentence: fmt.Sprintf(
					"%s: %s gives it to server %s, but the guest of server %s runs with it", id, source, c.Holder, by)})
			}
			return
		}
		holder[id] = c.Holder
		claims = append(claims, c)
	}
	for _, g := range guests {
		g.ID = currentID(g.ID, written)
		journalled, _ := written.Of(g.ID)
		for _, d := range g.Devices {
			c := device.Claim{Offer: device.Offer{Offered: pci.Offered{Device: pci.Device{Address: d.ID.Address()},
				Provider: d.Provider, Holder: resource.ConsumerID(g.ID), RequestID: d.Request}}}
			for _, j := range journalled {
				if j.ID() == d.ID {
					c = j
				}
			}
			c.State = pci.Allocated
			c.Offer = withInterface(c.Offer, g)
			add(c, "the hypervisor")
		}
	}
	for _, c := range written.Claims() {
		add(c, "the journal")
	}
	set, err := device.Restore(offers, claims)
	return set, conflicts, err
}

// withInterface returns the offer of a device of a guest as that of a VF for ports if the guest has an interface with
// it: the journal may not have that, and an operator may have removed its rule.
func withInterface(o device.Offer, g hypervisor.Guest) device.Offer {
	for _, i := range g.Interfaces {
		if i.Device == o.ID() && i.VIF == state.HardwareBridge {
			o.Networked, o.Device.Type = true, pci.Virtual
		}
	}
	return o
}

// currentID returns the id that the journal has for a guest of the hypervisor: the new one when a rename is
// unfinished.
func currentID(id string, written journal.State) string {
	renames := written.Renames()
	for _, now := range slices.Sorted(maps.Keys(renames)) {
		if renames[now].Was == id && !renames[now].Done {
			return now
		}
	}
	return id
}

// restoreGuests initialises the devices from the first observation, and records what the journal did not have.
func (s *Syncer) restoreGuests(offers []device.Offer, guests []hypervisor.Guest) error {
	set, conflicts, err := restore(withTakenSlices(offers, guests, s.Tree), s.State, guests)
	if err != nil {
		return err
	}
	found := s.State
	for _, g := range guests {
		s.Guests[g.ID] = g
		id := currentID(g.ID, found)
		if found.Ended(id) {
			s.LateAtStart[id] = true
		}
		held, cells := set.Held(resource.ConsumerID(id)), cellsOf(g, found.Cells(id))
		written, _ := found.Of(id)
		if state.SameClaims(written, held) && fmt.Sprint(cells) == fmt.Sprint(found.Cells(id)) {
			continue
		}
		s.Log(restoreMessage(written, held), "server", id, "devices", len(held))
		s.Record(journal.Put(id, held, cells...))
	}
	s.Set, s.Restored, s.Conflicts = set, true, conflicts
	s.ApplyDisabled()
	s.setConflictCondition()
	s.MarkUsedByGuests()
	return nil
}

// cellsOf returns the NUMA cells of a guest: those of the journal, unless the guest runs with others, as when the
// journal is lost or from a backup. The hypervisor does not record the flavor's thread policy: the guest keeps the
// threads that it has.
func cellsOf(g hypervisor.Guest, written []journal.GuestCell) []journal.GuestCell {
	// Sprint does not distinguish nil from an empty list
	if len(g.Cells) == 0 || fmt.Sprint(state.HypervisorCells(written)) == fmt.Sprint(g.Cells) {
		return written
	}
	var out []journal.GuestCell
	for _, p := range g.Cells {
		out = append(out, journal.GuestCell{VCPUs: p.VCPUs, Dedicated: slices.Sorted(maps.Keys(p.CPUs)), MemoryMB: p.MemoryMB,
			PageKB:   p.PageKB,
			Emulator: len(p.Emulator), Node: p.Node, CPUs: p.CPUs, EmulatorThreads: p.Emulator, Pages: p.PageKB})
	}
	return out
}

// withTakenSlices returns the offers with the slices that guests have taken of cards that the journal does not give to
// them. Placement does not have fewer slices of a card than its guest took, and the PF of a running guest has VFs only
// if it was given before its rule had shapes, as one device. Otherwise the sync would add slices to an allocation that
// compute has claimed without them.
func withTakenSlices(offers []device.Offer, guests []hypervisor.Guest, tree provider.Tree) []device.Offer {
	out := slices.Clone(offers)
	for _, g := range guests {
		for _, d := range g.Devices {
			i := slices.IndexFunc(out, func(o device.Offer) bool { return o.ID() == d.ID && o.Slices > 1 })
			if i < 0 {
				continue
			}
			if total := slicesOf(tree, d.Provider); total > 0 {
				out[i].Slices = min(out[i].Slices, total)
			}
			if !g.Stopped && out[i].NumVFs > 0 {
				out[i].Slices = 1
			}
		}
	}
	return out
}

// setConflictCondition sets the condition of the remaining conflicts. Most of these claims are removed from the
// journal soon after the start, because compute does not assign their servers.
func (s *Syncer) setConflictCondition() {
	s.Conflicts = slices.DeleteFunc(s.Conflicts, func(d state.ClaimConflict) bool {
		claims, _ := s.State.Of(d.Server)
		return !slices.ContainsFunc(claims, func(c device.Claim) bool { return c.ID() == d.Device })
	})
	var conflicts []condition.Condition
	for _, d := range s.Conflicts {
		conflicts = append(conflicts, condition.New(condition.Restore, d.Device.String(), d.Sentence))
	}
	state.SetConditions(s.Core, string(condition.Restore), conflicts)
}

// restoreMessage returns the log message for a guest whose claims differ from the journal's.
func restoreMessage(written, held []device.Claim) string {
	at := func(list []device.Claim) (out []device.ID) {
		for _, c := range list {
			out = append(out, c.ID())
		}
		return out
	}
	switch {
	case len(written) == 0:
		return "guest without claims in the journal: its devices are recorded"
	case !slices.Equal(at(written), at(held)):
		return "guest with other devices than in the journal: those of the guest are recorded"
	case !slices.EqualFunc(written, held, func(a, b device.Claim) bool { return a.Provider == b.Provider }):
		return "guest with other providers than in the journal (reporting switched on?)"
	}
	return "guest runs with its claimed devices"
}
