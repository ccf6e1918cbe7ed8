package treeplan

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestReshapesConverge tests for random guests and allocations that a plan passes Check, takes nothing from a
// consumer and gives no consumer more than its guest has, and that after at most three plans nothing is left to do.
func TestReshapesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := anyDesired(t)
		actual, used, marks := anyActual(t)
		if used == nil {
			used = Uses{}
		}
		aim := Aim{Tree: desired}
		aim.Expected, aim.Allocations = anyExpected(t, desired, actual, used)
		for round := 0; ; round++ {
			plan, err := Make(aim, actual, used, marks)
			if err != nil {
				t.Fatal(err)
			}
			if bad := Check(plan, aim, actual, used, marks); len(bad) > 0 {
				t.Fatalf("Check rejects %+v: %v", plan, bad)
			}
			if plan.Empty() {
				return
			}
			if round == 3 {
				t.Fatalf("the fourth plan is not empty: %+v", plan)
			}
			actual, used, marks = Apply(plan, actual), grown(t, plan, aim, used), plan.Owned
			for _, s := range plan.Steps {
				maps.Copy(aim.Allocations, s.Allocations)
			}
		}
	})
}

// anyExpected returns random devices of the tree for some consumers, and their allocations.
func anyExpected(t *rapid.T, desired, actual provider.Tree, used Uses) (map[resource.ConsumerID]Expected,
	map[resource.ConsumerID]resource.Allocation) {
	out, all := map[resource.ConsumerID]Expected{}, map[resource.ConsumerID]resource.Allocation{}
	for _, who := range []resource.ConsumerID{"s1", "s2"} {
		if rapid.Bool().Draw(t, "holds nothing") {
			continue
		}
		all[who] = resource.Allocation{}
		h := Expected{Devices: resource.Allocation{},
			State: rapid.SampledFrom([]HolderState{Assigned, Assigned, Moving, Pending, Unassigned}).
				Draw(t, "standing")}
		for id, by := range used {
			if len(by[who]) > 0 {
				all[who][id] = by[who]
			}
		}
		for i := range desired.Providers {
			p := &desired.Providers[i]
			if have, exists := actual.ByName(p.Name); exists { // like the survey: existing providers keep their id
				p.ID = have.ID
			}
			if p.Parent == "" || rapid.Bool().Draw(t, "not of this") {
				continue
			}
			for class, inv := range p.Inventories {
				h.Devices[p.ID] = resource.Amounts{class: rapid.IntRange(1, inv.Total).Draw(t, "held")}
			}
		}
		for i := range desired.Providers { // the children follow their root
			if root, exists := actual.Root(); exists && desired.Providers[i].Parent != "" {
				desired.Providers[i].Parent = root.ID
			}
		}
		out[who] = h
	}
	return out, all
}

// grown returns the usages after the plan. It fails when a consumer has less than before, or more than both Placement
// and its guest had.
func grown(t *rapid.T, plan Plan, aim Aim, used Uses) Uses {
	next := allocated(plan, used)
	for id, by := range used {
		for consumer, amounts := range by {
			for class, n := range amounts {
				if next[id][consumer][class] < n {
					t.Fatalf("%s lost %d %s of %s", consumer, n-next[id][consumer][class], class, id)
				}
			}
		}
	}
	for id, by := range next {
		for consumer, amounts := range by {
			for class, n := range amounts {
				if n > used[id][consumer][class] && aim.Expected[consumer].State > Moving {
					t.Fatalf("something was written for %s, which compute has not confirmed", consumer)
				}
				if n > used[id][consumer][class] && n != aim.Expected[consumer].Devices[id][class] {
					t.Fatalf("%s has %d %s of %s now, and its guest %d", consumer, n, class, id,
						aim.Expected[consumer].Devices[id][class])
				}
			}
		}
	}
	return next
}
