package candidate_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestDroppedStatesDoNotChangeCandidates checks that a search that drops failed states finds the same candidates.
func TestDroppedStatesDoNotChangeCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		providers, groups := rapid.IntRange(2, 4).Draw(t, "providers"), rapid.IntRange(3, 5).Draw(t, "groups")
		rows := []index.Row{{Provider: provider.Provider{ID: "cmp", Name: "cmp", Root: "cmp"}}}
		for i := range providers {
			id := provider.ID(fmt.Sprint("dev", i))
			total := resource.Whole(rapid.IntRange(4, 9).Draw(t, "total"))
			rows = append(rows, index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: "cmp",
				Root: "cmp", Inventories: map[resource.Class]resource.Inventory{"CUSTOM_NIC": total}}})
		}
		ask := resource.Ask{GroupPolicy: resource.PolicyNone}
		for i := range groups {
			ask.Groups = append(ask.Groups, resource.Group{Suffix: fmt.Sprint("_", i),
				Resources: resource.Amounts{"CUSTOM_NIC": rapid.IntRange(2, 5).Draw(t, "amount")}})
		}
		s := index.Build(rows)
		want := candidate.CountRemembering(s, ask, 0)
		for _, most := range []int{1, 2, 7} {
			if got := candidate.CountRemembering(s, ask, most); got != want {
				t.Fatalf("with %d failed states: %d candidates, want %d\n%+v\n%+v", most, got, want, ask, rows)
			}
		}
		if got := len(ct.BruteForce(rows, ask)); got != want {
			t.Fatalf("%d candidates, %d by brute force", want, got)
		}
	})
}

// TestFailedStatesAreBounded checks that a search never keeps more failed states than its bound.
func TestFailedStatesAreBounded(t *testing.T) {
	s, ask := ct.Stuck()
	calls := 0
	if most := candidate.MostRemembered(ct.StopAfter(2000, &calls), s, ask, 50); most != 50 {
		t.Errorf("%d failed states, want 50", most)
	}
}
