// Package numa defines the NUMA cells of hosts and guests, and decides whether and how a guest fits on a host.
//
// The scheduler and the agent use the same Fit: the agent can claim what the scheduler has found possible, if nothing
// has changed in between. The types correspond to those of api/host, which has the conversion functions. The package
// has no side effects.
package numa

import (
	"maps"
	"slices"
)

// Cell is one NUMA node of a host: its resources for guests, and their usage.
type Cell struct {
	ID        int     // the kernel's number
	Socket    int     // physical package of its CPUs, or NoSocket
	CPUs      []int   // host threads that guests share, ascending
	Dedicated []int   // host threads for one guest each, ascending; disjoint from CPUs
	Siblings  [][]int // threads that share a core, each group ascending; nil without SMT
	MemoryMB  int     // MiB, including huge pages
	Pages     []Pages // huge pages, by size

	Pinned     []int // threads of Dedicated in use, ascending
	Floating   int   // virtual CPUs of guests that share CPUs
	UsedMemory int   // MiB of small pages in use
}

// Pages are the huge pages of one size on a cell.
type Pages struct {
	SizeKB int
	Total  int
	Used   int
}

// Threads is hw:cpu_thread_policy: how dedicated CPUs are placed on cores with several threads.
type Threads string

// The thread policies. The empty value is Prefer.
const (
	Prefer  Threads = "prefer"  // threads of one core where possible
	Isolate Threads = "isolate" // a core for each CPU; its other threads stay idle
	Require Threads = "require" // threads of one core; a host without SMT does not fit
)

// The values of hw:mem_page_size that are not a size; SmallPages is the zero value.
const (
	SmallPages = 0  // not specified: small pages, which may be overcommitted if the guest has no dedicated CPUs
	LargePages = -1 // the largest huge pages that fit
	AnyPages   = -2 // the largest huge pages that fit, or small ones
	OwnPages   = -3 // small pages, not overcommitted
)

// GuestCell is one NUMA cell of a guest.
type GuestCell struct {
	VCPUs     []int // numbers of the guest's CPUs, ascending
	Dedicated []int // those with a host thread of their own, ascending
	Threads   Threads
	MemoryMB  int // MiB
	PageKB    int // size of its huge pages in KiB, or one of the constants above
	// host threads for the emulator only, in addition to those of the CPUs (hw:emulator_threads_policy isolate: 1 on
	// the first cell)
	Emulator int
	On       *CellChoice // what the scheduler has chosen; nil: any node, and pages as required
}

// CellChoice is what the scheduler has chosen for a guest cell, and claimed in Placement.
type CellChoice struct {
	Node   int // of the host
	PageKB int // size of its huge pages in KiB; 0 for small pages
}

// admits reports whether the guest cell may be on a node.
func (g GuestCell) admits(node int) bool { return g.On == nil || g.On.Node == node }

// withPages returns the guest cell with the pages that are chosen for it as those that it requires: the agent must take
// the pages that the server's allocation has, also if larger ones have become free since.
func (g GuestCell) withPages() GuestCell {
	switch {
	case g.On == nil:
	case g.On.PageKB > 0:
		g.PageKB = g.On.PageKB
	case g.PageKB == AnyPages:
		g.PageKB = OwnPages
	}
	return g
}

// WithChoices returns guest cells with what is chosen for them; without choices, each may be on any node.
func WithChoices(guest []GuestCell, choices []CellChoice) []GuestCell {
	out := slices.Clone(guest)
	for i := range out {
		out[i].On = nil
		if i < len(choices) {
			out[i].On = &choices[i]
		}
	}
	return out
}

// ChosenNodes returns the nodes that are chosen for guest cells, ascending.
func ChosenNodes(guest []GuestCell) (nodes []int) {
	for _, c := range guest {
		if c.On != nil {
			nodes = append(nodes, c.On.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Placed is the placement of one guest cell.
type Placed struct {
	Node     int         // of the host
	CPUs     map[int]int // dedicated virtual CPU → host thread
	Emulator []int       // host threads for the emulator only
	PageKB   int         // size of its huge pages in KiB; 0 for small pages
}

// Limits are the overcommit ratios of a host's cells. Zero means 1: no overcommit.
type Limits struct {
	CPU    float64 // virtual CPUs per thread of Cell.CPUs ([DEFAULT] cpu_allocation_ratio)
	Memory float64 // of small pages ([DEFAULT] ram_allocation_ratio)
}

// Host is the input of Fit about a host.
type Host struct {
	Cells  []Cell
	Nodes  Topology // all nodes of the kernel, also those that are not in Cells
	Limits Limits
	Pack   bool        // prefer cells in use ([compute] packing_host_numa_cells_allocation_strategy)
	Free   map[int]int // free PCI devices by cell: guests without devices avoid them
}

// Guest is the input of Fit about a guest.
type Guest struct {
	Cells   []GuestCell
	Devices bool // it requests PCI devices
}

// Use returns a host's cells with the usage of a guest added: guest are its cells, placed their placements. Cells
// that the host does not have are ignored. The agent computes the usage that it reports guest by guest.
func Use(cells []Cell, guest []GuestCell, placed []Placed) []Cell {
	out := slices.Clone(cells)
	for i, at := range placed {
		n := slices.IndexFunc(out, func(c Cell) bool { return c.ID == at.Node })
		if n < 0 || i >= len(guest) {
			continue
		}
		out[n] = out[n].with(guest[i], at)
	}
	return out
}

// with returns the cell with the usage of one guest cell added.
func (c Cell) with(g GuestCell, at Placed) Cell {
	pinned := append(slices.Clone(c.Pinned), slices.Sorted(maps.Values(at.CPUs))...)
	pinned = append(pinned, at.Emulator...)
	if g.Threads == Isolate {
		for _, thread := range slices.Clone(pinned[len(c.Pinned):]) {
			pinned = append(pinned, c.core(thread)...)
		}
	}
	slices.Sort(pinned)
	c.Pinned = slices.Compact(pinned)
	c.Floating += len(g.VCPUs) - len(g.Dedicated)
	if at.PageKB <= 0 {
		c.UsedMemory += g.MemoryMB
		return c
	}
	c.Pages = slices.Clone(c.Pages)
	for i := range c.Pages {
		if c.Pages[i].SizeKB == at.PageKB {
			c.Pages[i].Used += pagesFor(g.MemoryMB, at.PageKB)
		}
	}
	return c
}

// core returns the threads of Dedicated on the core of a thread, including the thread.
func (c Cell) core(thread int) []int {
	for _, group := range c.Siblings {
		if slices.Contains(group, thread) {
			return slices.DeleteFunc(slices.Clone(group), func(t int) bool { return !slices.Contains(c.Dedicated, t) })
		}
	}
	return []int{thread}
}

// pagesFor returns the number of pages for an amount of memory, rounded up.
func pagesFor(memoryMB, sizeKB int) int { return (memoryMB*1024 + sizeKB - 1) / sizeKB }

// small returns the memory for small pages in MiB: all memory except huge pages.
func (c Cell) small() int {
	left := c.MemoryMB
	for _, p := range c.Pages {
		left -= p.SizeKB * p.Total / 1024
	}
	return max(left, 0)
}

// freeCount returns the number of threads for dedicated CPUs that are not in use. Both lists are ascending.
func (c Cell) freeCount() int {
	free, p := 0, 0
	for _, t := range c.Dedicated {
		for p < len(c.Pinned) && c.Pinned[p] < t {
			p++
		}
		if p == len(c.Pinned) || c.Pinned[p] != t {
			free++
		}
	}
	return free
}

// free returns the threads for dedicated CPUs that are not in use.
func (c Cell) free() []int {
	return slices.DeleteFunc(slices.Clone(c.Dedicated), func(t int) bool { return slices.Contains(c.Pinned, t) })
}
