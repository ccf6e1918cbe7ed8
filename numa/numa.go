// Package numa holds the words for NUMA cells, those of a host and those of a guest, and decides whether and how a guest lies on a host.
//
// The scheduler and the agent use the same Fit: what the one takes for possible the other can claim, if nothing changed in between.
// The types are those of api/host (Cell, Part, Placed), which has the functions that turn one into the other. The package is pure.
package numa

import (
	"maps"
	"slices"
)

// NoSocket is the socket of a cell when the host does not know it.
const NoSocket = -1

// Cell is one NUMA node of a host: what guests may have of it, and what they have.
type Cell struct {
	ID        int     // the kernel's number
	Socket    int     // physical package of its CPUs, or NoSocket
	CPUs      []int   // host threads that guests share, rising
	Dedicated []int   // host threads that are given to one guest each, rising; none of CPUs
	Siblings  [][]int // threads that share a core, each group rising; nil without SMT
	MemoryMB  int     // MiB in all, with those of huge pages
	Pages     []Pages // huge pages, by size

	Pinned     []int // those of Dedicated that guests have, rising
	Floating   int   // virtual CPUs of guests that share CPUs
	UsedMemory int   // MiB of small pages that guests have
}

// Pages are the huge pages of one size on a cell.
type Pages struct {
	SizeKB int
	Total  int
	Used   int
}

// Threads is hw:cpu_thread_policy: how dedicated CPUs lie on cores with several threads.
type Threads string

// The thread policies. None is Prefer.
const (
	Prefer  Threads = "prefer"  // threads of one core where possible
	Isolate Threads = "isolate" // a core for each CPU; its other threads stay idle
	Require Threads = "require" // threads of one core; a host without SMT will not do
)

// The words for pages that are not a size (hw:mem_page_size); SmallPages is the zero value.
const (
	SmallPages = 0  // nothing is said: small pages, which may be overcommitted where the guest has no dedicated CPUs
	LargePages = -1 // the largest huge pages that fit
	AnyPages   = -2 // the largest huge pages that fit, or small ones
	OwnPages   = -3 // small pages, not overcommitted
)

// Part is one NUMA cell of a guest.
type Part struct {
	VCPUs     []int // numbers of the guest's CPUs, rising
	Dedicated []int // those of them that have a host thread for themselves, rising
	Threads   Threads
	MemoryMB  int // MiB
	PageKB    int // size of its huge pages in KiB, or one of the words for pages
	Emulator  int // host threads for the emulator alone, beside those of the CPUs (hw:emulator_threads_policy isolate: 1 on the first part)
}

// Placed is where one part of a guest lies.
type Placed struct {
	Node     int         // of the host
	CPUs     map[int]int // dedicated virtual CPU → host thread
	Emulator []int       // host threads for the emulator alone
	PageKB   int         // size of its huge pages in KiB; 0 for small pages
}

// Limits say how far a host's cells may be overcommitted. A zero is 1: not at all.
type Limits struct {
	CPU    float64 // virtual CPUs for each of Cell.CPUs ([DEFAULT] cpu_allocation_ratio)
	Memory float64 // of small pages ([DEFAULT] ram_allocation_ratio)
}

// Host is a host as Fit sees it.
type Host struct {
	Cells  []Cell
	Limits Limits
	Pack   bool        // fill up cells that are in use first ([compute] packing_host_numa_cells_allocation_strategy)
	Free   map[int]int // free PCI devices by cell: guests without devices keep away from them
}

// Guest is what is to lie on a host.
type Guest struct {
	Parts   []Part
	Devices bool // it asks for PCI devices
}

// Use is a host's cells when a guest lies there as placed says, beside what they bear already. Cells that it names and the host does not
// have are passed over. The agent makes the use that it reports by it, guest by guest.
func Use(cells []Cell, parts []Part, placed []Placed) []Cell {
	out := slices.Clone(cells)
	for i, at := range placed {
		n := slices.IndexFunc(out, func(c Cell) bool { return c.ID == at.Node })
		if n < 0 || i >= len(parts) {
			continue
		}
		out[n] = out[n].with(parts[i], at)
	}
	return out
}

func (c Cell) with(p Part, at Placed) Cell {
	pinned := append(slices.Clone(c.Pinned), slices.Sorted(maps.Values(at.CPUs))...)
	pinned = append(pinned, at.Emulator...)
	if p.Threads == Isolate {
		for _, thread := range slices.Clone(pinned[len(c.Pinned):]) {
			pinned = append(pinned, c.core(thread)...)
		}
	}
	slices.Sort(pinned)
	c.Pinned = slices.Compact(pinned)
	c.Floating += len(p.VCPUs) - len(p.Dedicated)
	if at.PageKB <= 0 {
		c.UsedMemory += p.MemoryMB
		return c
	}
	c.Pages = slices.Clone(c.Pages)
	for i := range c.Pages {
		if c.Pages[i].SizeKB == at.PageKB {
			c.Pages[i].Used += pagesFor(p.MemoryMB, at.PageKB)
		}
	}
	return c
}

// core lists the threads of Dedicated on the core of a thread, itself among them.
func (c Cell) core(thread int) []int {
	for _, group := range c.Siblings {
		if slices.Contains(group, thread) {
			return slices.DeleteFunc(slices.Clone(group), func(t int) bool { return !slices.Contains(c.Dedicated, t) })
		}
	}
	return []int{thread}
}

// pagesFor counts the pages that hold so much memory, rounded up.
func pagesFor(memoryMB, sizeKB int) int { return (memoryMB*1024 + sizeKB - 1) / sizeKB }

// small is the memory for small pages in MiB: what huge pages do not have.
func (c Cell) small() int {
	left := c.MemoryMB
	for _, p := range c.Pages {
		left -= p.SizeKB * p.Total / 1024
	}
	return max(left, 0)
}

// free lists the threads for dedicated CPUs that no guest has.
func (c Cell) free() []int {
	return slices.DeleteFunc(slices.Clone(c.Dedicated), func(t int) bool { return slices.Contains(c.Pinned, t) })
}
