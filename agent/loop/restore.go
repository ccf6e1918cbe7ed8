package loop

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// doubt is a claim of the journal that contradicts what a guest runs with, as after a journal was restored from a
// backup.
type claimConflict struct {
	server   string // that has the device according to the journal
	address  pci.Address
	sentence string
}

// restore puts together who holds what after a restart: what guests run with is true, and what the journal has claimed
// for guests not yet built is kept. Doubts are where the two contradict each other.
func restore(offers []device.Offer, state journal.State, guests []hypervisor.Guest) (device.Set, []claimConflict, error) {
	var claims []device.Claim
	var doubts []claimConflict
	holder := map[pci.Address]resource.ConsumerID{}
	add := func(c device.Claim, source string) {
		address := c.Device.Address
		if by, taken := holder[address]; taken {
			if by != c.Holder {
				doubts = append(doubts, claimConflict{string(c.Holder), address,
					fmt.Sprintf("%s: %s gives it to server %s, but the guest of server %s runs with it", address, source, c.Holder, by)})
			}
			return
		}
		holder[address] = c.Holder
		claims = append(claims, c)
	}
	for _, g := range guests {
		g.ID = currentID(g.ID, state)
		journalled, _ := state.Of(g.ID)
		for _, d := range g.Devices {
			c := device.Claim{Offer: device.Offer{Device: pci.Device{Address: d.Address}, Provider: d.Provider}, Holder: resource.ConsumerID(g.ID), Request: d.Request}
			for _, j := range journalled {
				if j.Device.Address == d.Address {
					c = j
				}
			}
			c.State = device.Allocated
			add(c, "the hypervisor")
		}
	}
	for _, c := range state.Claims() {
		add(c, "the journal")
	}
	set, err := device.Restore(offers, claims)
	return set, doubts, err
}

// standsAs is the id under which a guest of the hypervisor stands: another one than its own when it was about to be renamed.
func currentID(id string, state journal.State) string {
	for now, r := range state.Renames() {
		if r.Was == id && !r.Done {
			return now
		}
	}
	return id
}

// restoreGuests takes in the host as it was found at the start, and writes down what the journal did not know. a.mu is held.
func (a *Agent) restoreGuests(s observation) error {
	set, doubts, err := restore(s.offers, a.journal.State(), s.guests)
	if err != nil {
		return err
	}
	state := a.journal.State()
	for _, g := range s.guests {
		a.guests[g.ID] = g
		id := currentID(g.ID, state)
		held, parts := set.Held(resource.ConsumerID(id)), cellsOf(g, state.Cells(id))
		written, _ := state.Of(id)
		if sameClaims(written, held) && fmt.Sprint(parts) == fmt.Sprint(state.Cells(id)) {
			continue
		}
		a.log.Info(restoreMessage(written, held), "server", id, "devices", len(held))
		if err := a.journal.Put(id, held, parts...); err != nil {
			return err
		}
	}
	a.set, a.restored, a.claimConflicts = set, true, doubts
	a.setConflictCondition()
	return a.markUsedByGuests()
}

// partsOf returns the NUMA cells of a guest: those that the journal has, or else, as when the journal is lost or from a
// backup, those that the guest runs with. The hypervisor does not know what its flavor says of threads: the guest keeps
// the threads that it has.
func cellsOf(g hypervisor.Guest, written []journal.GuestCell) []journal.GuestCell {
	if len(g.Cells) == 0 || fmt.Sprint(hypervisorCells(written)) == fmt.Sprint(g.Cells) { // in which nil is an empty list
		return written
	}
	var out []journal.GuestCell
	for _, p := range g.Cells {
		out = append(out, journal.GuestCell{VCPUs: p.VCPUs, Dedicated: slices.Sorted(maps.Keys(p.CPUs)), MemoryMB: p.MemoryMB, PageKB: p.PageKB,
			Emulator: len(p.Emulator), Node: p.Node, CPUs: p.CPUs, EmulatorThreads: p.Emulator, Pages: p.PageKB})
	}
	return out
}

// tellDoubts sets the condition of the doubts that remain: the journal has most claims removed soon after the start,
// because compute does not assign their servers. a.mu is held.
func (a *Agent) setConflictCondition() {
	state := a.journal.State()
	a.claimConflicts = slices.DeleteFunc(a.claimConflicts, func(d claimConflict) bool {
		claims, _ := state.Of(d.server)
		return !slices.ContainsFunc(claims, func(c device.Claim) bool { return c.Device.Address == d.address })
	})
	var sentences []string
	for _, d := range a.claimConflicts {
		sentences = append(sentences, d.sentence)
	}
	a.condition("restore", sentences...)
}

// newlyKnown says in a sentence what of a guest's claims the journal did not have.
func restoreMessage(written, held []device.Claim) string {
	at := func(list []device.Claim) (out []pci.Address) {
		for _, c := range list {
			out = append(out, c.Device.Address)
		}
		return out
	}
	switch {
	case len(written) == 0:
		return "a guest holds devices, and the journal knew nothing of them; they are written down as its own"
	case !slices.Equal(at(written), at(held)):
		return "a guest holds other devices than the journal knew; those that it runs with are written down"
	case !slices.EqualFunc(written, held, func(a, b device.Claim) bool { return a.Provider == b.Provider }):
		return "a guest holds the devices that the journal knew, which other providers of Placement count now, as when reporting is switched on"
	}
	return "a guest runs with the devices that the journal had claimed for it"
}

// sameClaims compares what the journal must know.
func sameClaims(a, b []device.Claim) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Device.Address != b[i].Device.Address || a[i].Request != b[i].Request || a[i].Provider != b[i].Provider || a[i].State != b[i].State {
			return false
		}
	}
	return true
}
