package plan_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
)

// TestLimitedSearchNeverRefusesWhatFits compares searches that are limited to random amounts of work with complete
// ones.
func TestLimitedSearchNeverRefusesWhatFits(t *testing.T) {
	undecided := 0
	eachCase(t, *cases, func(rng *rand.Rand) error {
		h, g := randomCase(rng)
		_, all, complete := plan.MakeWithin(plan.MaxWork, h, g)
		limit := rng.IntN(all + 1)
		p, work, refusal := plan.MakeWithin(limit, h, g)
		at, wrong := []int(nil), ""
		switch {
		case work > limit:
			wrong = "more work than permitted"
		case refusal != nil && refusal.Undecided:
			undecided++
		case refusal != nil && complete == nil:
			wrong = "refused, but it fits"
		case refusal == nil && complete != nil:
			wrong = "a plan, but the complete search finds none"
		case refusal == nil:
			if at, wrong = nodesOf(h, g, p); wrong == "" {
				_, _, wrong = valid(h, g, p, at)
			}
		}
		if wrong != "" {
			return fmt.Errorf("%s\nlimit %d of %d\nhost %+v\nguest %+v\nplan %+v\nrefusal %+v", wrong, limit, all, h, g, p,
				refusal)
		}
		return nil
	})
	if undecided == 0 {
		t.Error("no search was undecided")
	}
}

// endless returns cases whose complete searches take hours or more memory than a machine has.
func endless() []large {
	unequal := plan.Host{Room: room(32)} // each node has other numbers of devices, and a root of its own
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 32 {
		for model := range 3 {
			unequal.Devices = append(unequal.Devices, devices(rng.IntN(6), model, n, fmt.Sprint(n))...)
		}
	}
	cards := cardHost(1, 40, 2) // each set has a VF and a device of its card's root, and PFs are wanted beside them
	for i := range 40 {
		cards.Devices = append(cards.Devices, devices(1, 0, 0, fmt.Sprint("r", i))...)
	}
	return []large{
		{name: "32 unequal nodes, 16 cells, 36 sets", host: unequal, guest: plan.Guest{Cells: cells(16),
			Requests: requests(pci.Legacy, 36, 36, 36), Sets: sets("pcie_root", 36, 0, 1)}},
		{name: "32 unequal nodes, 16 cells, socket", host: unequal, guest: plan.Guest{Cells: cells(16),
			Requests: requests(pci.Socket, 49, 49, 49)}},
		{name: "30 sets beside 11 of 40 cards", host: cards, guest: plan.Guest{
			Requests: requests("", 30, 30, 11), Sets: sets("pcie_root", 30, 0, 1)}},
	}
}

// TestEndlessSearchesEndUndecided tests that a search which cannot end in time says so, and needs little memory.
func TestEndlessSearchesEndUndecided(t *testing.T) {
	for _, c := range endless() {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, work, refusal := plan.MakeWithin(8*plan.QuickWork, c.host, c.guest)
			runtime.ReadMemStats(&after)
			t.Log(work, refusal, p.Far, (after.TotalAlloc-before.TotalAlloc)>>20, "MB")
			if work != 8*plan.QuickWork || refusal != nil && !refusal.Undecided {
				t.Errorf("work %d, %+v", work, refusal)
			}
		})
	}
}

func BenchmarkEndless(b *testing.B) {
	for _, c := range endless() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan.Make(c.host, c.guest)
			}
		})
	}
}
