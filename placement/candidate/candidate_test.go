package candidate_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestAllocationAndMappingsSumTheTakes compares Allocation and Mappings with sums made in the test, in both orders of
// Find, and checks the numbers of slots and items. A clone keeps its value when Find continues.
func TestAllocationAndMappingsSumTheTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := ct.DrawWorld(t)
		s, ask := index.Build(rows), ct.DrawAsk(t, rows)
		ask.Limit = 200
		for _, breadthFirst := range []bool{false, true} {
			var clones []candidate.Candidate
			var keys []string
			for c := range candidate.Find(s, ask, candidate.Options{BreadthFirst: breadthFirst}) {
				checkNumbers(t, c)
				allocation, mappings := sum(c)
				if !reflect.DeepEqual(c.Allocation(), allocation) || !reflect.DeepEqual(c.Mappings(), mappings) {
					t.Fatalf("got  %v %v\nwant %v %v", c.Allocation(), c.Mappings(), allocation, mappings)
				}
				clones, keys = append(clones, c.Clone()), append(keys, ct.KeyOf(allocation, mappings))
			}
			if got := ct.Keys(slices.Values(clones)); !slices.Equal(got, keys) {
				t.Fatalf("clones %q\nfound  %q", got, keys)
			}
		}
	})
}

// sum adds up the takes of a candidate.
func sum(c candidate.Candidate) (resource.Allocation, map[string][]provider.ID) {
	allocation, mappings := resource.Allocation{}, map[string][]provider.ID{}
	for _, t := range c.Takes {
		id := t.Node().ID
		if !slices.Contains(mappings[t.Suffix], id) {
			mappings[t.Suffix] = append(mappings[t.Suffix], id)
		}
		for class, n := range t.Amounts {
			if allocation[id] == nil {
				allocation[id] = resource.Amounts{}
			}
			allocation[id][class] += n
		}
	}
	return allocation, mappings
}

// checkNumbers checks that Item is the position of the take, and that equal slots mean the same provider.
func checkNumbers(t *rapid.T, c candidate.Candidate) {
	slots := map[int]provider.ID{}
	for i, take := range c.Takes {
		if take.Item != i {
			t.Fatalf("take %d has item %d", i, take.Item)
		}
		if id, known := slots[take.Slot]; known && id != take.Node().ID {
			t.Fatalf("slot %d is both %s and %s", take.Slot, id, take.Node().ID)
		}
		slots[take.Slot] = take.Node().ID
	}
	if ids := slices.Sorted(maps.Values(slots)); len(slices.Compact(ids)) != len(slots) {
		t.Fatalf("one provider has two slots: %v", slots)
	}
}
