package numa_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openberth/berth/numa"
)

// TestFitAgreesWithTryingEverything compares Fit with a search of all orders of host cells and all sets of threads.
// The placements that Fit returns are checked too.
func TestFitAgreesWithTryingEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	const cases = 4000
	count := 0
	for n := range cases {
		host, guest := randomHost(rng), randomGuest(rng)
		wanted := map[int]bool{rng.IntN(4): true, rng.IntN(4): true}
		judge := numa.Judge{}
		accepts := func(nodes []int) bool {
			return judge.Accept == nil || slices.ContainsFunc(nodes, func(id int) bool { return wanted[id] })
		}
		if rng.IntN(2) == 0 {
			judge.Accept = func(nodes []int) numa.Refusal {
				if slices.ContainsFunc(nodes, func(id int) bool { return wanted[id] }) {
					return numa.Refusal{}
				}
				return numa.Refusal{Reason: "too far"}
			}
			if rng.IntN(2) == 0 {
				judge.Kind = func(node int) string { return map[bool]string{true: "near"}[wanted[node]] }
			}
		}
		placed, refusal := numa.Fit(host, guest, judge)
		want := anyOrder(host, guest.Cells, nil, accepts)
		if (refusal.Reason == "") != want {
			t.Fatalf("case %d: %+v, trying everything: %v\nhost %+v\nguest %+v", n, refusal, want, host, guest)
		}
		if !want {
			continue
		}
		count++
		if wrong := problem(host, guest.Cells, placed); wrong != "" || !accepts(nodes(placed)) {
			t.Fatalf("case %d: %s\nplaced %+v\nhost %+v\nguest %+v", n, wrong, placed, host, guest)
		}
	}
	if count < cases/10 || count > cases*9/10 {
		t.Errorf("%d of %d cases fit: the cases are too similar", count, cases)
	}
}

func randomHost(rng *rand.Rand) numa.Host {
	h := numa.Host{
		Limits: numa.Limits{CPU: float64(1 + rng.IntN(3)), Memory: float64(1 + rng.IntN(2))},
		Pack:   rng.IntN(2) == 0,
		Free:   map[int]int{rng.IntN(4): 1},
	}
	for id := range 1 + rng.IntN(4) {
		c := numa.Cell{ID: id, MemoryMB: 64 * (1 + rng.IntN(4)), UsedMemory: 64 * rng.IntN(3), Floating: rng.IntN(4)}
		for i := range rng.IntN(4) {
			c.CPUs = append(c.CPUs, id*20+10+i)
		}
		for i := range rng.IntN(7) {
			c.Dedicated = append(c.Dedicated, id*20+i)
			if rng.IntN(4) == 0 {
				c.Pinned = append(c.Pinned, id*20+i)
			}
		}
		if rng.IntN(2) == 0 {
			c = smt(c)
		}
		if rng.IntN(2) == 0 {
			c.Pages = []numa.Pages{{SizeKB: 32 << 10, Total: rng.IntN(4)}}
			c.Pages[0].Used = rng.IntN(c.Pages[0].Total + 1)
		}
		h.Cells = append(h.Cells, c)
	}
	return h
}

func randomGuest(rng *rand.Rand) numa.Guest {
	var guest numa.Guest
	threads := []numa.Threads{"", numa.Prefer, numa.Isolate, numa.Require}[rng.IntN(4)]
	pages := []int{numa.SmallPages, numa.SmallPages, numa.LargePages, numa.AnyPages, numa.OwnPages, 32 << 10}[rng.IntN(6)]
	for i := range 1 + rng.IntN(3) {
		g := guestCell(1+rng.IntN(3), rng.IntN(2) == 0)
		g.MemoryMB, g.PageKB, g.Threads = 32*(1+rng.IntN(3)), pages, threads
		if len(g.Dedicated) > 1 && rng.IntN(3) == 0 {
			g.Dedicated = g.Dedicated[1:] // mixed
		}
		if i == 0 && len(g.Dedicated) > 0 && rng.IntN(3) == 0 {
			g.Emulator = 1
		}
		guest.Cells = append(guest.Cells, g)
	}
	return guest
}

// anyOrder reports whether some order of host cells works for the guest cells from len(used) on.
func anyOrder(h numa.Host, guest []numa.GuestCell, used []int, accepts func([]int) bool) bool {
	if len(used) == len(guest) {
		return accepts(used)
	}
	for _, c := range h.Cells {
		if !slices.Contains(used, c.ID) && fits(c, guest[len(used)], h.Limits) &&
			anyOrder(h, guest, append(slices.Clone(used), c.ID), accepts) {
			return true
		}
	}
	return false
}

// fits reports whether one guest cell fits on one host cell (docs/behaviour/nova-pci.md 5.6).
func fits(c numa.Cell, g numa.GuestCell, limits numa.Limits) bool {
	small, hugeFree := c.MemoryMB, 0
	for _, of := range c.Pages {
		small -= of.Total * of.SizeKB / 1024
		hugeFree = (of.Total - of.Used) * of.SizeKB / 1024
	}
	small = max(small, 0)
	ratio := 1.0
	if g.PageKB == numa.SmallPages && len(g.Dedicated) == 0 {
		ratio = limits.Memory
	}
	inSmall := g.MemoryMB <= small && float64(c.UsedMemory+g.MemoryMB) <= float64(small)*ratio
	inHuge := g.MemoryMB <= hugeFree
	switch g.PageKB {
	case numa.SmallPages, numa.OwnPages:
		inHuge = false
	case numa.AnyPages:
	default:
		inSmall = false
	}
	floating := len(g.VCPUs) - len(g.Dedicated)
	if !inSmall && !inHuge ||
		floating > 0 && (floating > len(c.CPUs) || float64(c.Floating+floating) > float64(len(c.CPUs))*limits.CPU) {
		return false
	}
	return anyThreads(c, g, nil, 0)
}

// anyThreads reports whether some set of free threads fits.
func anyThreads(c numa.Cell, g numa.GuestCell, chosen []int, from int) bool {
	if len(chosen) == len(g.Dedicated)+g.Emulator {
		for e := range chosen { // any of them can be the thread of the emulator
			cpus := chosen
			if g.Emulator > 0 {
				cpus = slices.Delete(slices.Clone(chosen), e, e+1)
			}
			if allowed(c, g.Threads, chosen, cpus) {
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

// allowed reports whether the thread policy allows these threads: all of the guest, and cpus of its CPUs.
func allowed(c numa.Cell, policy numa.Threads, all, cpus []int) bool {
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

// problem returns what is wrong with the placements of a guest, or "".
func problem(h numa.Host, guest []numa.GuestCell, placed []numa.Placed) string {
	seen := map[int]bool{}
	for i, at := range placed {
		n := slices.IndexFunc(h.Cells, func(c numa.Cell) bool { return c.ID == at.Node })
		if n < 0 || seen[at.Node] {
			return "two guest cells on one host cell, or an unknown host cell"
		}
		seen[at.Node] = true
		c, g := h.Cells[n], guest[i]
		var all, cpus []int
		for v, thread := range at.CPUs {
			if !slices.Contains(g.Dedicated, v) {
				return "a CPU that is not dedicated has a thread"
			}
			cpus = append(cpus, thread)
		}
		all = append(slices.Clone(cpus), at.Emulator...)
		slices.Sort(all)
		if len(cpus) != len(g.Dedicated) || len(at.Emulator) != g.Emulator ||
			len(slices.Compact(slices.Clone(all))) != len(all) {
			return "the wrong number of threads"
		}
		for _, thread := range all {
			if slices.Contains(c.Pinned, thread) || !slices.Contains(c.Dedicated, thread) {
				return "a thread that is not free"
			}
		}
		if !allowed(c, g.Threads, all, cpus) {
			return "the thread policy does not allow the threads"
		}
		after := numa.Use(h.Cells, guest, placed)[n]
		for _, of := range after.Pages {
			if of.Used > of.Total {
				return "too many pages"
			}
		}
	}
	return ""
}
