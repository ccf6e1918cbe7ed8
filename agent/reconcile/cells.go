package reconcile

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/resource"
)

// CPUs is the part of the host's CPUs, memory and disk that guests may use, in Nova's options.
type CPUs struct {
	Shared       []int // [compute] cpu_shared_set; nil: not set
	Dedicated    []int // [compute] cpu_dedicated_set; nil: not set
	ReservedCPUs *int  // [DEFAULT] reserved_host_cpus; nil: not set
	ReservedMB   *int  // [DEFAULT] reserved_host_memory_mb
	ReservedGB   *int  // [DEFAULT] reserved_host_disk_mb, rounded up to GiB
	CPURatio     float64
	MemoryRatio  float64
	DiskRatio    float64 // allocation ratios; 0: not set
	Pack         bool    // [compute] packing_host_numa_cells_allocation_strategy
}

// set reports whether the configuration names CPUs.
func (c CPUs) set() bool { return c.Shared != nil || c.Dedicated != nil }

// The traits of the root provider that the agent derives from the host.
const (
	socketAffinity resource.Trait = "COMPUTE_SOCKET_PCI_NUMA_AFFINITY" // the socket of every NUMA node is known
	hyperthreading resource.Trait = "HW_CPU_HYPERTHREADING"            // cores for dedicated CPUs have several threads
)

// fillFacts sets what the root provider offers. As in Nova, without either set all CPUs are shared; with
// cpu_dedicated_set alone none is.
func (c CPUs) fillFacts(f *survey.Facts, machine facts.Facts, capacity hypervisor.Capacity) {
	f.VCPU = rootInventory(capacity.VCPUs, c.ReservedCPUs, c.CPURatio)
	if c.set() {
		f.VCPU = rootInventory(len(online(c.Shared, machine)), c.ReservedCPUs, c.CPURatio)
		f.PCPU = rootInventory(len(online(c.Dedicated, machine)), nil, 0)
	}
	f.MemoryMB = rootInventory(capacity.MemoryMB, c.ReservedMB, c.MemoryRatio)
	f.DiskGB = rootInventory(capacity.DiskGB, c.ReservedGB, c.DiskRatio)
	f.NoLive = capacity.NoLive
	cells := c.cells(machine)
	if len(cells) > 0 && !slices.ContainsFunc(cells, func(c numa.Cell) bool { return c.Socket == numa.NoSocket }) {
		f.Traits = append(f.Traits, socketAffinity)
	}
	if slices.ContainsFunc(cells, func(c numa.Cell) bool { return len(c.Siblings) > 0 }) {
		f.Traits = append(f.Traits, hyperthreading)
	}
}

// Doubts returns warnings about configured CPUs, memory and disk that the host does not have. The agent runs, but it
// offers less than the configuration says.
func (c CPUs) Doubts(machine facts.Facts, capacity hypervisor.Capacity) (sentences []string) {
	for _, of := range []struct {
		option string
		set    []int
	}{{"cpu_shared_set", c.Shared}, {"cpu_dedicated_set", c.Dedicated}} {
		if missing := len(of.set) - len(online(of.set, machine)); missing > 0 {
			sentences = append(sentences,
				fmt.Sprintf("[compute] %s names %d CPUs, of which this host lacks %d, or they are offline: they are not offered",
					of.option, len(of.set), missing))
		}
	}
	vcpus := capacity.VCPUs
	if c.set() {
		vcpus = len(online(c.Shared, machine))
	}
	for _, of := range []struct {
		option   string
		reserved *int
		total    int
	}{{"reserved_host_cpus", c.ReservedCPUs, vcpus}, {"reserved_host_memory_mb", c.ReservedMB, capacity.MemoryMB},
		{"reserved_host_disk_mb", c.ReservedGB, capacity.DiskGB}} {
		if of.reserved != nil && *of.reserved > 0 && *of.reserved >= of.total {
			sentences = append(sentences, fmt.Sprintf("[DEFAULT] %s keeps back all that this host has: no guest can have any",
				of.option))
		}
	}
	return sentences
}

// rootInventory returns what the root offers of a class; reserved is limited to total.
func rootInventory(total int, reserved *int, ratio float64) survey.RootInventory {
	s := survey.RootInventory{Total: total, Ratio: ratio}
	if reserved != nil {
		s.Reserved, s.ReservedSet = min(*reserved, total), true
	}
	return s
}

// online returns the CPUs of a set that the host has. A host without NUMA nodes in /sys is assumed to have all.
func online(set []int, machine facts.Facts) []int {
	var have []int
	for _, n := range machine.Nodes {
		have = append(have, n.CPUs...)
	}
	if len(have) == 0 {
		return set
	}
	return slices.DeleteFunc(slices.Clone(set), func(cpu int) bool { return !slices.Contains(have, cpu) })
}

// cells returns the NUMA nodes that guests may use, without the guests' usage. Memory reserved for the host is taken
// from the first nodes, because the option names no node.
func (c CPUs) cells(machine facts.Facts) []numa.Cell {
	var out []numa.Cell
	reserved := 0
	if c.ReservedMB != nil {
		reserved = *c.ReservedMB
	}
	for _, n := range machine.Nodes {
		cell := numa.Cell{ID: n.ID, Socket: n.Socket, MemoryMB: n.MemoryMB}
		take := min(reserved, cell.MemoryMB)
		cell.MemoryMB, reserved = cell.MemoryMB-take, reserved-take
		for _, p := range n.Pages {
			cell.Pages = append(cell.Pages, numa.Pages{SizeKB: p.SizeKB, Total: p.Total})
		}
		in := func(set []int) []int { // the sets are small, and so are the nodes
			return slices.DeleteFunc(slices.Clone(n.CPUs), func(cpu int) bool { return !slices.Contains(set, cpu) })
		}
		if cell.CPUs = n.CPUs; c.set() {
			cell.CPUs, cell.Dedicated = in(c.Shared), in(c.Dedicated)
		}
		for _, group := range n.Siblings {
			if len(group) > 1 {
				cell.Siblings = append(cell.Siblings, group)
			}
		}
		if len(cell.CPUs) > 0 || len(cell.Dedicated) > 0 || cell.MemoryMB > 0 {
			out = append(out, cell)
		}
	}
	return out
}

// readCells converts the NUMA cells of a guest from the journal's form: what they require, and where they are placed.
func readCells(list []journal.GuestCell) (parts []numa.GuestCell, placed []numa.Placed) {
	for _, p := range list {
		parts = append(parts, numa.GuestCell{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: numa.Threads(p.Threads),
			MemoryMB: p.MemoryMB,
			PageKB:   p.PageKB, Emulator: p.Emulator})
		placed = append(placed, numa.Placed{Node: p.Node, CPUs: p.CPUs, Emulator: p.EmulatorThreads, PageKB: p.Pages})
	}
	return parts, placed
}

// writeCells converts the NUMA cells of a guest to the journal's form.
func writeCells(parts []numa.GuestCell, placed []numa.Placed) []journal.GuestCell {
	var out []journal.GuestCell
	for i, p := range parts {
		at := placed[i]
		out = append(out, journal.GuestCell{VCPUs: p.VCPUs, Dedicated: p.Dedicated, Threads: string(p.Threads),
			MemoryMB: p.MemoryMB, PageKB: p.PageKB,
			Emulator: p.Emulator, Node: at.Node, CPUs: at.CPUs, EmulatorThreads: at.Emulator, Pages: at.PageKB})
	}
	return out
}

// hypervisorCells converts the NUMA cells of a guest from the journal's form to the hypervisor's.
func hypervisorCells(list []journal.GuestCell) []hypervisor.GuestCell {
	var out []hypervisor.GuestCell
	for _, p := range list {
		out = append(out, hypervisor.GuestCell{VCPUs: p.VCPUs, MemoryMB: p.MemoryMB, PageKB: p.Pages, Node: p.Node,
			CPUs: p.CPUs, Emulator: p.EmulatorThreads})
	}
	return out
}

// sameCells reports whether the journal's cells have the same requirements as parts.
func sameCells(list []journal.GuestCell, parts []numa.GuestCell) bool {
	asked, _ := readCells(list)
	return len(list) > 0 && reflect.DeepEqual(asked, parts)
}
