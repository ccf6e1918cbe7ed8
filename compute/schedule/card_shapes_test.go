package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const cardClass resource.Class = "CUSTOM_CARD"

// shapesHost returns a host of cards with these numbers of VFs, each offered as its PF and as its VFs.
func shapesHost(vfs ...int) schedule.Host {
	h := host("h1")
	for n, count := range vfs {
		for _, d := range card(uint8(1+n), provider.ID(fmt.Sprint("card", n)), 0, true, count) {
			if d.ResourceClass = cardClass; d.Type == pci.Physical {
				d.Slices = max(count, 1)
			}
			h.Devices = append(h.Devices, d)
		}
	}
	return h
}

// cardRequest returns a request for one device of a card.
func cardRequest(kind pci.Type) pci.Request {
	return pci.Request{ID: "R", Alias: "card", Count: 1, Requirement: pci.Requirement{Class: cardClass, Type: kind}}
}

// Servers with PFs and with VFs of cards come and go at random. A server is planned if and only if a card has what it
// needs, by what Placement has left alone, also while the report of the host is older; and the claim is what Placement
// has left at most.
func TestShapesByArithmetic(t *testing.T) {
	placed, refused := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 9))
		counts, free := make([]int, 1+rng.IntN(3)), resource.Allocation{}
		for n := range counts {
			counts[n] = rng.IntN(4)
			free[provider.ID(fmt.Sprint("card", n))] = resource.Amounts{cardClass: max(counts[n], 1)}
		}
		h := shapesHost(counts...)
		input := schedule.Input{Hosts: hosts(h), Now: noon, Counted: map[string]bool{"R": true}, Isolate: seed%2 == 0,
			Candidates: []schedule.Candidate{candidate("h1")}}
		var claims []resource.Allocation
		for range 40 {
			if len(claims) > 0 && rng.IntN(3) == 0 {
				n := rng.IntN(len(claims))
				for id, amounts := range claims[n] {
					free[id][cardClass] += amounts[cardClass]
				}
				claims = slices.Delete(claims, n, n+1)
				continue
			}
			kind, fits := []pci.Type{pci.Physical, pci.Virtual}[rng.IntN(2)], false
			for n, count := range counts {
				left := free[provider.ID(fmt.Sprint("card", n))][cardClass]
				fits = fits || kind == pci.Physical && left == max(count, 1) || kind == pci.Virtual && count > 0 && left > 0
			}
			choice, _, refusal := schedule.PlanOn(input, h.Provider, []pci.Request{cardRequest(kind)},
				schedule.Tree{Free: free})
			if fits != (refusal.Reason == "") {
				t.Fatalf("case %d: %v of cards with %v VFs, left %v: fits %t, refused %+v", seed, kind, counts, free, fits, refusal)
			}
			if !fits {
				refused++
				continue
			}
			placed++
			for id, amounts := range choice.Allocation {
				if free[id][cardClass] -= amounts[cardClass]; free[id][cardClass] < 0 {
					t.Fatalf("case %d: %v claims %v, and %d too many", seed, kind, choice.Allocation, -free[id][cardClass])
				}
			}
			claims = append(claims, choice.Allocation)
		}
	}
	if placed < 200 || refused < 200 {
		t.Errorf("%d servers fit, %d do not: the cases are too similar", placed, refused)
	}
}

// VFs of cards in use are used first, so that whole cards remain.
func TestVFsOfUsedCardsFirst(t *testing.T) {
	h := shapesHost(2, 2)
	h.Devices[3].State, h.Devices[4].State = pci.Unavailable, pci.Allocated // the second card and its first VF
	input := schedule.Input{Hosts: hosts(h), Now: noon, Counted: map[string]bool{"R": true},
		Candidates: []schedule.Candidate{candidate("h1")}}
	choice, _, refusal := schedule.PlanOn(input, h.Provider, []pci.Request{cardRequest(pci.Virtual)},
		schedule.Tree{Free: resource.Allocation{"card0": {cardClass: 2}, "card1": {cardClass: 1}}})
	if choice.Allocation["card1"][cardClass] != 1 {
		t.Errorf("%+v %+v", choice, refusal)
	}
}

// A candidate of Placement has one slice of a card, which is a VF. The PF of a card with several is refused.
func TestCandidateHasOneSlice(t *testing.T) {
	for _, test := range []struct {
		vfs  int
		kind pci.Type
		want string
	}{
		{2, pci.Virtual, ""},
		{2, pci.Physical, "Placement has chosen one slice of its 2"},
		{1, pci.Physical, ""},
	} {
		c := candidate("h1", "card0")
		c.Allocation = resource.Allocation{"card0": {cardClass: 1}}
		choices, refusals := schedule.Choose(schedule.Input{Hosts: hosts(shapesHost(test.vfs)), Now: noon,
			Candidates: []schedule.Candidate{c}}, []pci.Request{cardRequest(test.kind)}, 1)
		why := ""
		for _, r := range refusals {
			why += r.Reason + "; " + r.Nearest
		}
		if (len(choices) == 1) != (test.want == "") || !strings.Contains(why, test.want) {
			t.Errorf("%s of a card with %d VFs: %d choices, refused %q", test.kind, test.vfs, len(choices), why)
		}
	}
}
