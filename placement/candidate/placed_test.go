package candidate_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// words puts a placement into words by itself.
func words(p candidate.Placed) candidate.Candidate {
	c := candidate.Candidate{Root: p.Root, Allocation: resource.Allocation{}, Mappings: map[string][]provider.ID{}}
	for _, t := range p.Takes {
		id := t.Node().ID
		if !slices.Contains(c.Mappings[t.Suffix], id) {
			c.Mappings[t.Suffix] = append(c.Mappings[t.Suffix], id)
		}
		for class, n := range t.Amounts {
			if c.Allocation[id] == nil {
				c.Allocation[id] = resource.Amounts{}
			}
			c.Allocation[id][class] += n
		}
	}
	return c
}

// What is placed is what is said, in the same order; items and spots have the numbers that are promised.
func TestPlacedIsWhatIsSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		s, ask := index.Build(rows), drawAsk(t, rows)
		ask.Limit = 200
		never := candidate.Until(nil)
		for name, both := range map[string][2]any{
			"All":    {slices.Collect(never.All(s, ask)), slices.Collect(said(t, never.AllPlaced(s, ask)))},
			"Spread": {slices.Collect(never.Spread(s, ask)), slices.Collect(said(t, never.SpreadPlaced(s, ask)))},
		} {
			if !reflect.DeepEqual(both[0], both[1]) {
				t.Fatalf("%s: said  %v\nplaced %v", name, both[0], both[1])
			}
		}
	})
}

// said puts placements into words, one after the other, and looks at their numbers.
func said(t *rapid.T, placed func(yield func(candidate.Placed) bool)) func(yield func(candidate.Candidate) bool) {
	return func(yield func(candidate.Candidate) bool) {
		for p := range placed {
			spots := map[int]provider.ID{}
			for i, take := range p.Takes {
				if take.Item != i {
					t.Fatalf("take %d is of item %d", i, take.Item)
				}
				if id, known := spots[take.Spot]; known && id != take.Node().ID {
					t.Fatalf("spot %d is both %s and %s", take.Spot, id, take.Node().ID)
				}
				spots[take.Spot] = take.Node().ID
			}
			if ids := slices.Sorted(maps.Values(spots)); len(slices.Compact(ids)) != len(spots) {
				t.Fatalf("one provider has two spots: %v", spots)
			}
			if !yield(words(p.Clone())) {
				return
			}
		}
	}
}
