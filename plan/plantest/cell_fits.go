package plantest

import (
	"slices"

	"github.com/openberth/berth/numa"
)

// CellFits reports whether one guest cell fits on one host cell (docs/behaviour/nova-pci.md 5.6). Cores have one or two
// threads.
func CellFits(c numa.Cell, g numa.GuestCell, limits numa.Limits) bool {
	shared := len(g.VCPUs) - len(g.Dedicated)
	if !memoryFits(c, g, limits) || shared > len(c.CPUs) ||
		shared > 0 && float64(c.Floating+shared) > float64(len(c.CPUs))*ratio(limits.CPU) {
		return false
	}
	return anyThreads(c, g, nil, 0)
}

// memoryFits reports whether a host cell has the memory of a guest cell, in pages of a size that the guest allows.
func memoryFits(c numa.Cell, g numa.GuestCell, limits numa.Limits) bool {
	small := c.MemoryMB
	for _, of := range c.Pages {
		small -= of.Total * of.SizeKB / 1024
		if g.PageKB != numa.SmallPages && g.PageKB != numa.OwnPages && (g.PageKB < 0 || g.PageKB == of.SizeKB) &&
			g.MemoryMB*1024%of.SizeKB == 0 && g.MemoryMB <= (of.Total-of.Used)*of.SizeKB/1024 {
			return true
		}
	}
	overcommit := 1.0
	switch {
	case g.PageKB == numa.LargePages || g.PageKB > 0:
		return false
	case g.PageKB == numa.SmallPages && len(g.Dedicated) == 0:
		overcommit = ratio(limits.Memory)
	}
	return g.MemoryMB <= small && float64(c.UsedMemory+g.MemoryMB) <= float64(small)*overcommit
}

// ratio returns an overcommit ratio; 1 if it is not set.
func ratio(r float64) float64 {
	if r <= 0 {
		return 1
	}
	return r
}

// anyThreads reports whether some set of free threads fits.
func anyThreads(c numa.Cell, g numa.GuestCell, chosen []int, from int) bool {
	if len(chosen) == len(g.Dedicated)+g.Emulator {
		for e := range chosen { // any of them can be the thread of the emulator
			cpus := chosen
			if g.Emulator > 0 {
				cpus = slices.Delete(slices.Clone(chosen), e, e+1)
			}
			if ThreadsAllowed(c, g.Threads, chosen, cpus) {
				return true
			}
		}
		return len(chosen) == 0
	}
	for i := from; i < len(c.Dedicated); i++ {
		if !slices.Contains(c.Pinned, c.Dedicated[i]) &&
			anyThreads(c, g, append(slices.Clone(chosen), c.Dedicated[i]), i+1) {
			return true
		}
	}
	return false
}

// ThreadsAllowed reports whether the thread policy allows these threads: all of the guest, and cpus of its CPUs.
func ThreadsAllowed(c numa.Cell, policy numa.Threads, all, cpus []int) bool {
	if policy != numa.Require && (policy != numa.Isolate || len(c.Siblings) == 0) {
		return true
	}
	coreOf := func(t int) []int {
		for _, g := range c.Siblings {
			if slices.Contains(g, t) {
				return g
			}
		}
		return []int{t}
	}
	if policy == numa.Isolate {
		for _, t := range all {
			for _, s := range coreOf(t) {
				if s != t &&
					(slices.Contains(all, s) || slices.Contains(c.Pinned, s) || !slices.Contains(c.Dedicated, s)) {
					return false
				}
			}
		}
		return true
	}
	if len(cpus) == 0 {
		return true
	}
	// Cores have two threads here: both threads of a used core must have been free, and at most one core is used by
	// half.
	halves := 0
	for _, t := range cpus {
		core := coreOf(t)
		if len(core) < 2 || slices.ContainsFunc(core, func(s int) bool { return slices.Contains(c.Pinned, s) }) {
			return false
		}
		if !slices.ContainsFunc(core, func(s int) bool { return s != t && slices.Contains(cpus, s) }) {
			halves++
		}
	}
	return halves <= 1
}
