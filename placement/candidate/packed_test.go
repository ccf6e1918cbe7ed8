package candidate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestCompletionAgreesWithTheSearch compares the two methods of deciding a section on small hosts.
func TestCompletionAgreesWithTheSearch(t *testing.T) {
	found, not := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draw := func(low, high int) int { return rapid.IntRange(low, high).Draw(t, "n") }
		traits := []resource.Trait{"CUSTOM_A", "CUSTOM_B"}
		classes := []resource.Class{"CUSTOM_X", "CUSTOM_Y"}
		rows := []index.Row{{Provider: provider.Provider{ID: "cmp", Name: "cmp", Root: "cmp"}}}
		for i := range draw(2, 4) {
			id := provider.ID(fmt.Sprint("dev", i))
			r := index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: "cmp", Root: "cmp",
				Traits: traits[:draw(0, 2)], Inventories: map[resource.Class]resource.Inventory{}}}
			for _, c := range classes {
				r.Inventories[c] = resource.Whole(draw(4, 9))
			}
			rows = append(rows, r)
		}
		ask := resource.Ask{GroupPolicy: resource.PolicyNone}
		if draw(0, 5) == 0 {
			ask.GroupPolicy = resource.PolicyIsolate
			ask.Groups = append(ask.Groups, resource.Group{Resources: resource.Amounts{"CUSTOM_X": draw(1, 3)}})
		}
		for i := range draw(3, 8) {
			g := resource.Group{Suffix: fmt.Sprint("_", i), Resources: resource.Amounts{"CUSTOM_X": draw(1, 5)}}
			if draw(0, 1) == 0 {
				g.Resources["CUSTOM_Y"] = draw(1, 5)
			}
			if n := draw(0, 4); n < 2 {
				g.Required = [][]resource.Trait{{traits[n]}}
			}
			ask.Groups = append(ask.Groups, g)
		}
		yes, no, err := candidate.CompareMethods(index.Build(rows), ask)
		if found, not = found+yes, not+no; err != nil {
			t.Fatalf("%v\n%+v\n%+v", err, ask, rows)
		}
	})
	if found < 100 || not < 100 {
		t.Errorf("%d sections have a placement, %d have none: not enough of both", found, not)
	}
}

// TestPackedAsksAreDecided decides generated asks of up to 32 groups with different amounts, which are bin packing near
// the total. All but a few must be decided within the steps that the server allows for one tree, and the others must be
// given up.
func TestPackedAsksAreDecided(t *testing.T) {
	asks := uint64(4_000 / testenv.Stride(8))
	undecided, found := 0, 0
	for seed := range asks {
		s, ask := ct.Packed(rand.New(rand.NewPCG(seed, 0)))
		calls, givenUp := 0, 0
		for c := range candidate.Find(s, ask, candidate.Options{
			Stop:      func() bool { calls++; return false },
			TreeSteps: candidate.StepsOfATree,
			Undecided: func(_ *index.Tree, groups []string) {
				if givenUp++; len(groups) == 0 {
					t.Errorf("ask %d: no groups are named", seed)
				}
			},
			BreadthFirst: true,
		}) {
			if found++; !fits(s, c) {
				t.Fatalf("ask %d: the candidate does not fit: %s", seed, ct.Brief(c))
			}
			break
		}
		if givenUp > 0 {
			undecided++
		}
		if most := s.Len() * (candidate.StepsOfATree + 1000) / 64; calls > most {
			t.Errorf("ask %d: %d calls of stop, at most %d expected", seed, calls, most)
		}
	}
	t.Logf("%d asks: %d have a candidate, %d were not decided on each host", asks, found, undecided)
	if undecided > int(asks)/100+2 {
		t.Errorf("%d of %d asks were not decided", undecided, asks)
	}
}

// fits reports whether the providers of a candidate have what it takes.
func fits(s *index.Snapshot, c candidate.Candidate) bool {
	for id, amounts := range c.Allocation() {
		row, ok := s.Row(id)
		for class, n := range amounts {
			if ok = ok && n <= row.Inventories[class].Capacity()-row.Used[class]; !ok {
				return false
			}
		}
	}
	return true
}
