package numa

import (
	"fmt"
	"slices"
)

// checkThreads returns the shortfall of host threads for the dedicated CPUs of a guest cell and for its emulator.
func (c Cell) checkThreads(g GuestCell) *shortfall {
	need := len(g.Dedicated) + g.Emulator
	if need == 0 {
		return nil
	}
	if free := c.freeCount(); need > free {
		return lacking(dedicatedCheck, float64(free), float64(need),
			fmt.Sprintf("%d threads for dedicated CPUs left", need), fmt.Sprintf("has %d", free))
	}
	if g.Threads != Isolate && g.Threads != Require {
		return nil
	}
	_, lack := c.threads(g, need)
	return lack
}

// pick chooses the host threads for the dedicated CPUs of a guest cell that fits, and for its emulator.
func (c Cell) pick(g GuestCell) (map[int]int, []int) {
	need := len(g.Dedicated) + g.Emulator
	if need == 0 {
		return nil, nil
	}
	threads, lack := c.threads(g, need)
	if lack != nil {
		return nil, nil
	}
	cpus := map[int]int{}
	for i, v := range g.Dedicated {
		cpus[v] = threads[i]
	}
	if g.Emulator == 0 {
		return cpus, nil
	}
	rest := threads[len(g.Dedicated):]
	if len(rest) < g.Emulator { // the remaining threads, on any core
		rest = slices.DeleteFunc(c.free(), func(t int) bool { return slices.Contains(threads[:len(g.Dedicated)], t) })
	}
	return cpus, slices.Clone(rest[:g.Emulator])
}

// threads returns enough threads for the dedicated CPUs of a guest cell, core by core as its thread policy requires;
// for Isolate, also for its emulator.
func (c Cell) threads(g GuestCell, need int) ([]int, *shortfall) {
	cores, smt := c.cores()
	n := len(g.Dedicated)
	if g.Threads == Isolate && smt {
		var first []int
		for _, core := range cores {
			if core.whole {
				first = append(first, core.free[0])
			}
		}
		if len(first) < need {
			return nil, lacking(threadsCheck, float64(len(first)), float64(need),
				fmt.Sprintf("%d idle cores (hw:cpu_thread_policy isolate)", need), fmt.Sprintf("has %d", len(first)))
		}
		return first[:need], nil
	}
	if n == 0 {
		return nil, nil
	}
	if g.Threads == Require {
		cores = slices.DeleteFunc(cores, func(c core) bool { return len(c.free) < 2 })
	}
	slices.SortStableFunc(cores, func(a, b core) int { return len(b.free) - len(a.free) }) // whole cores first
	var list []int
	for _, core := range cores {
		list = append(list, core.free...)
	}
	if len(list) >= n {
		return list[:n], nil
	}
	if !smt {
		return nil, lacking(threadsCheck, 0, 1, "cores with several threads (hw:cpu_thread_policy require)", "has none")
	}
	return nil, lacking(threadsCheck, float64(len(list)), float64(n),
		fmt.Sprintf("%d threads that share cores left (hw:cpu_thread_policy require)", n),
		fmt.Sprintf("has %d", len(list)))
}

type core struct {
	free  []int // threads for dedicated CPUs that are not in use
	whole bool  // no thread of it is in use or shared
}

// cores returns the cores that have an unused thread for dedicated CPUs, by their first thread. smt reports whether
// some core of the cell has several threads.
func (c Cell) cores() (list []core, smt bool) {
	free := c.free()
	for _, group := range c.Siblings {
		smt = smt || len(group) > 1
	}
	done := map[int]bool{}
	for _, t := range free {
		if done[t] {
			continue
		}
		group := []int{t}
		for _, g := range c.Siblings {
			if slices.Contains(g, t) {
				group = g
			}
		}
		one := core{whole: true}
		for _, s := range group {
			done[s] = true
			if slices.Contains(free, s) {
				one.free = append(one.free, s)
			} else {
				one.whole = false
			}
		}
		list = append(list, one)
	}
	return list, smt
}
