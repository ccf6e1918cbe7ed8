package state

import (
	"reflect"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ReadCells converts the NUMA cells of a guest from the journal's form: what they require, and where they are placed.
func ReadCells(list []journal.GuestCell) (cells []numa.GuestCell, placed []numa.Placed) {
	for _, p := range list {
		cells = append(cells, numa.GuestCell{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: numa.Threads(p.Threads),
			MemoryMB: p.MemoryMB,
			PageKB:   p.PageKB, Emulator: p.Emulator})
		placed = append(placed, numa.Placed{Node: p.Node, CPUs: p.CPUs, Emulator: p.EmulatorThreads, PageKB: p.Pages})
	}
	return cells, placed
}

// writeCells converts the NUMA cells of a guest to the journal's form.
func writeCells(cells []numa.GuestCell, placed []numa.Placed) []journal.GuestCell {
	var out []journal.GuestCell
	for i, p := range cells {
		at := placed[i]
		out = append(out, journal.GuestCell{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: string(p.Threads),
			MemoryMB: p.MemoryMB, PageKB: p.PageKB,
			Emulator: p.Emulator, Node: at.Node, CPUs: at.CPUs, EmulatorThreads: at.Emulator, Pages: at.PageKB})
	}
	return out
}

// HypervisorCells converts the NUMA cells of a guest from the journal's form to the hypervisor's.
func HypervisorCells(list []journal.GuestCell) []hypervisor.GuestCell {
	var out []hypervisor.GuestCell
	for _, p := range list {
		out = append(out, hypervisor.GuestCell{VCPUs: p.VCPUs, MemoryMB: p.MemoryMB, PageKB: p.Pages, Node: p.Node,
			CPUs: p.CPUs, Emulator: p.EmulatorThreads})
	}
	return out
}

// sameCells reports whether the journal's cells have these requirements.
func sameCells(list []journal.GuestCell, cells []numa.GuestCell) bool {
	journalled, _ := ReadCells(list)
	return len(list) > 0 && reflect.DeepEqual(journalled, numa.WithChoices(cells, nil))
}

// usedCells returns the host's cells with the usage of all guests in the journal except one.
func (c *Core) usedCells(except string) []numa.Cell {
	cells := c.Cells
	for _, id := range c.State.Servers() {
		if guestCells, placed := ReadCells(c.State.Cells(id)); id != except {
			cells = numa.Use(cells, guestCells, placed)
		}
	}
	return cells
}

// UsedNodes returns what the guests in a journal use of the providers of NUMA nodes, by consumer and by provider of a
// tree.
func UsedNodes(state journal.State, host string, tree provider.Tree) map[resource.ConsumerID]resource.Allocation {
	out := map[resource.ConsumerID]resource.Allocation{}
	for _, id := range state.Servers() {
		use := resource.Allocation{}
		cells, placed := ReadCells(state.Cells(id))
		for i, at := range placed {
			if node, there := tree.ByName(numa.ProviderName(host, at.Node)); there {
				use = use.Add(resource.Allocation{node.ID: cells[i].Amounts(at.PageKB)})
			}
		}
		if len(use) > 0 {
			out[resource.ConsumerID(id)] = use
		}
	}
	return out
}

// CountedGuests lists the guests in a journal with NUMA cells, for the host report.
func CountedGuests(state journal.State) (list []host.CountedGuest) {
	for _, id := range state.Servers() {
		if cells, placed := ReadCells(state.Cells(id)); len(cells) > 0 {
			list = append(list, host.CountedGuest{ID: id, Cells: host.WriteGuestCells(cells),
				Placed: host.WritePlaced(placed)})
		}
	}
	return list
}
