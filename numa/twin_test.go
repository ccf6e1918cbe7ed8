package numa_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openberth/berth/numa"
)

// The stupid twin: a guest fits exactly when some order of the host's cells, each judged by trying all sets of its
// threads, works. What
// Fit answers is then checked by laying it down.
func TestFitAgreesWithTryingEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	const cases = 4000
	fits := 0
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
		want := anyOrder(host, guest.Parts, nil, accepts)
		if (refusal.Reason == "") != want {
			t.Fatalf("case %d: %+v, trying everything says %v\nhost %+v\nguest %+v", n, refusal, want, host, guest)
		}
		if !want {
			continue
		}
		fits++
		if wrong := lay(host, guest.Parts, placed); wrong != "" || !accepts(nodes(placed)) {
			t.Fatalf("case %d: %s\nplaced %+v\nhost %+v\nguest %+v", n, wrong, placed, host, guest)
		}
	}
	if fits < cases/10 || fits > cases*9/10 {
		t.Errorf("%d of %d cases fit: the cases show nothing", fits, cases)
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
	var g numa.Guest
	threads := []numa.Threads{"", numa.Prefer, numa.Isolate, numa.Require}[rng.IntN(4)]
	pages := []int{numa.SmallPages, numa.SmallPages, numa.LargePages, numa.AnyPages, numa.OwnPages, 32 << 10}[rng.IntN(6)]
	for i := range 1 + rng.IntN(3) {
		p := part(1+rng.IntN(3), rng.IntN(2) == 0)
		p.MemoryMB, p.PageKB, p.Threads = 32*(1+rng.IntN(3)), pages, threads
		if len(p.Dedicated) > 1 && rng.IntN(3) == 0 {
			p.Dedicated = p.Dedicated[1:] // mixed
		}
		if i == 0 && len(p.Dedicated) > 0 && rng.IntN(3) == 0 {
			p.Emulator = 1
		}
		g.Parts = append(g.Parts, p)
	}
	return g
}

// anyOrder tries every order of cells for the parts.
func anyOrder(h numa.Host, parts []numa.GuestCell, taken []int, accepts func([]int) bool) bool {
	if len(taken) == len(parts) {
		return accepts(taken)
	}
	for _, c := range h.Cells {
		if !slices.Contains(taken, c.ID) && bears(c, parts[len(taken)], h.Limits) &&
			anyOrder(h, parts, append(slices.Clone(taken), c.ID), accepts) {
			return true
		}
	}
	return false
}

// bears judges one cell by the words of pci.md 5.6.
func bears(c numa.Cell, p numa.GuestCell, limits numa.Limits) bool {
	small, hugeFree := c.MemoryMB, 0
	for _, of := range c.Pages {
		small -= of.Total * of.SizeKB / 1024
		hugeFree = (of.Total - of.Used) * of.SizeKB / 1024
	}
	small = max(small, 0)
	ratio := 1.0
	if p.PageKB == numa.SmallPages && len(p.Dedicated) == 0 {
		ratio = limits.Memory
	}
	inSmall := p.MemoryMB <= small && float64(c.UsedMemory+p.MemoryMB) <= float64(small)*ratio
	inHuge := p.MemoryMB <= hugeFree
	switch p.PageKB {
	case numa.SmallPages, numa.OwnPages:
		inHuge = false
	case numa.AnyPages:
	default:
		inSmall = false
	}
	floating := len(p.VCPUs) - len(p.Dedicated)
	if !inSmall && !inHuge ||
		floating > 0 && (floating > len(c.CPUs) || float64(c.Floating+floating) > float64(len(c.CPUs))*limits.CPU) {
		return false
	}
	return anyThreads(c, p, nil, 0)
}

// anyThreads tries every set of free threads.
func anyThreads(c numa.Cell, p numa.GuestCell, chosen []int, from int) bool {
	if len(chosen) == len(p.Dedicated)+p.Emulator {
		for e := range chosen { // each of them could be the emulator's
			cpus := chosen
			if p.Emulator > 0 {
				cpus = slices.Delete(slices.Clone(chosen), e, e+1)
			}
			if lawful(c, p.Threads, chosen, cpus) {
				return true
			}
		}
		return len(chosen) == 0
	}
	for i := from; i < len(c.Dedicated); i++ {
		if !slices.Contains(c.Pinned, c.Dedicated[i]) &&
			anyThreads(c, p, append(slices.Clone(chosen), c.Dedicated[i]), i+1) {
			return true
		}
	}
	return false
}

// lawful judges threads by the thread policy: all are the guest's, cpus those of its CPUs.
func lawful(c numa.Cell, policy numa.Threads, all, cpus []int) bool {
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
	// Cores have two threads here: each that is used had both free, and at most one is used by half.
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

// lay puts a guest down where Fit says and tells what is wrong with it.
func lay(h numa.Host, parts []numa.GuestCell, placed []numa.Placed) string {
	seen := map[int]bool{}
	for i, at := range placed {
		n := slices.IndexFunc(h.Cells, func(c numa.Cell) bool { return c.ID == at.Node })
		if n < 0 || seen[at.Node] {
			return "two parts on a cell, or no such cell"
		}
		seen[at.Node] = true
		c, p := h.Cells[n], parts[i]
		var all, cpus []int
		for v, thread := range at.CPUs {
			if !slices.Contains(p.Dedicated, v) {
				return "a thread for a CPU that is not dedicated"
			}
			cpus = append(cpus, thread)
		}
		all = append(slices.Clone(cpus), at.Emulator...)
		slices.Sort(all)
		if len(cpus) != len(p.Dedicated) || len(at.Emulator) != p.Emulator ||
			len(slices.Compact(slices.Clone(all))) != len(all) {
			return "the wrong number of threads"
		}
		for _, thread := range all {
			if slices.Contains(c.Pinned, thread) || !slices.Contains(c.Dedicated, thread) {
				return "a thread that is not free"
			}
		}
		if !lawful(c, p.Threads, all, cpus) {
			return "threads against the policy"
		}
		after := numa.Use(h.Cells, parts, placed)[n]
		for _, of := range after.Pages {
			if of.Used > of.Total {
				return "too many pages"
			}
		}
	}
	return ""
}
