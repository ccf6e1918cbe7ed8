package state

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
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
	InPlacement  bool    // [berth] numa_in_placement
	Pack         bool    // [compute] packing_host_numa_cells_allocation_strategy
}

// set reports whether the configuration names CPUs.
func (c CPUs) set() bool { return c.Shared != nil || c.Dedicated != nil }

// The traits of the root provider that the agent derives from the host.
const (
	socketAffinity resource.Trait = "COMPUTE_SOCKET_PCI_NUMA_AFFINITY" // the socket of each node with CPUs is known
	hyperthreading resource.Trait = "HW_CPU_HYPERTHREADING"            // cores for dedicated CPUs have several threads
)

// FillFacts sets what the root provider offers. As in Nova, without either set all CPUs are shared; with
// cpu_dedicated_set alone none is.
func (c CPUs) FillFacts(f *survey.Facts, machine facts.Facts, capacity hypervisor.Capacity) {
	f.VCPU = rootInventory(capacity.VCPUs, c.ReservedCPUs, c.CPURatio)
	if c.set() {
		f.VCPU = rootInventory(len(online(c.Shared, machine)), c.ReservedCPUs, c.CPURatio)
		f.PCPU = rootInventory(len(online(c.Dedicated, machine)), nil, 0)
	}
	f.MemoryMB = rootInventory(capacity.MemoryMB, c.ReservedMB, c.MemoryRatio)
	f.DiskGB = rootInventory(capacity.DiskGB, c.ReservedGB, c.DiskRatio)
	f.NoLive = capacity.NoLive
	cells := c.Cells(machine)
	unknown := func(n numa.Node) bool { return n.CPUs && n.Socket == numa.NoSocket } // a node of memory has no socket
	if len(cells) > 0 && !slices.ContainsFunc(Topology(machine), unknown) {
		f.Traits = append(f.Traits, socketAffinity)
	}
	if slices.ContainsFunc(cells, func(c numa.Cell) bool { return len(c.Siblings) > 0 }) {
		f.Traits = append(f.Traits, hyperthreading)
	}
}

// Warnings returns warnings about configured CPUs, memory and disk that the host does not have. The agent runs, but it
// offers less than the configuration says.
func (c CPUs) Warnings(machine facts.Facts, capacity hypervisor.Capacity) (sentences []string) {
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
			sentences = append(sentences, fmt.Sprintf("[DEFAULT] %s reserves all that this host has, so guests get none; "+
				"lower it",
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

// Limits returns the overcommit ratios of NUMA nodes.
func (c CPUs) Limits() numa.Limits { return numa.Limits{CPU: c.CPURatio, Memory: c.MemoryRatio} }

// Topology returns all NUMA nodes of a host.
func Topology(machine facts.Facts) (out numa.Topology) {
	for _, n := range machine.Nodes {
		out = append(out, numa.Node{ID: n.ID, CPUs: len(n.CPUs) > 0, Socket: n.Socket, Distances: n.Distances})
	}
	return out
}

// Cells returns the NUMA nodes that guests may use, without the guests' usage. Memory reserved for the host is taken
// from the first nodes, because the option names no node.
func (c CPUs) Cells(machine facts.Facts) []numa.Cell {
	var out []numa.Cell
	reserved := 0
	if c.ReservedMB != nil {
		reserved = *c.ReservedMB
	}
	for _, n := range machine.Nodes {
		cell := numa.Cell{ID: n.ID, Socket: n.Socket, MemoryMB: n.MemoryMB}
		here := min(reserved, cell.MemoryMB)
		cell.MemoryMB, reserved = cell.MemoryMB-here, reserved-here
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
