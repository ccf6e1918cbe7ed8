package numa_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/plan/plantest"
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
		if !slices.Contains(used, c.ID) && plantest.CellFits(c, guest[len(used)], h.Limits) &&
			anyOrder(h, guest, append(slices.Clone(used), c.ID), accepts) {
			return true
		}
	}
	return false
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
		if !plantest.ThreadsAllowed(c, g.Threads, all, cpus) {
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
