package treeplan

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

var (
	someClasses = []resource.Class{"CUSTOM_A", "CUSTOM_B", "PGPU"}
	someTraits  = []resource.Trait{"CUSTOM_X", "CUSTOM_Y", "HW_NUMA_ROOT"}
)

func anyInventory(t *rapid.T, label string) inv {
	out := inv{}
	for _, c := range rapid.SliceOfNDistinct(rapid.SampledFrom(someClasses), 0, 2, rapid.ID[resource.Class]).Draw(t,
		label) {
		i := resource.Whole(rapid.IntRange(1, 4).Draw(t, label+" total"))
		i.Reserved = rapid.IntRange(0, i.Total).Draw(t, label+" reserved")
		out[c] = i
	}
	return out
}

func someOf(t *rapid.T, label string) []resource.Trait {
	return rapid.SliceOfDistinct(rapid.SampledFrom(someTraits), rapid.ID[resource.Trait]).Draw(t, label)
}

// anyDesired returns a tree that a host may report: one class on each device, no reserve.
func anyDesired(t *rapid.T) provider.Tree {
	root := inv{}
	for _, c := range rootClasses {
		if rapid.IntRange(0, 5).Draw(t, "has "+string(c)) > 0 {
			root[c] = resource.Whole(rapid.IntRange(1, 8).Draw(t, string(c)))
		}
	}
	var children []provider.Provider
	for bus := range rapid.IntRange(0, 4).Draw(t, "devices") {
		class := rapid.SampledFrom(someClasses).Draw(t, "class")
		p := pf(fmt.Sprintf("%02x", bus), inv{class: resource.Whole(rapid.IntRange(1, 4).Draw(t, "total"))},
			someOf(t, "traits")...)
		children = append(children, p)
	}
	return tree(root, children...)
}

// anyActual returns a tree in any state that crashes, operators and other agents may leave.
func anyActual(t *rapid.T) (provider.Tree, Uses, OwnedSet) {
	if rapid.IntRange(0, 9).Draw(t, "new host") == 0 {
		return provider.Tree{}, nil, nil
	}
	root := anyInventory(t, "root")
	for _, c := range rootClasses {
		root[c] = resource.Whole(rapid.IntRange(1, 8).Draw(t, string(c)))
	}
	var children []provider.Provider
	for bus := range rapid.IntRange(0, 5).Draw(t, "providers") {
		p := pf(fmt.Sprintf("%02x", bus), anyInventory(t, "device"), someOf(t, "traits")...)
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0: // creation was interrupted
			p.Traits, p.Inventories = nil, nil
		case 1: // of another client
			p.Name, p.Traits = "foreign "+p.Name, nil
		}
		p.ID, p.Generation = "has-"+p.ID, rapid.IntRange(0, 9).Draw(t, "generation")
		children = append(children, p)
	}
	actual, used, marks := tree(root, children...), Uses{}, OwnedSet{}
	for _, p := range actual.Providers {
		for c, i := range p.Inventories {
			if n := rapid.IntRange(-3, i.Total+1).Draw(t, "used"); n > 0 {
				if used[p.ID] == nil {
					used[p.ID] = map[resource.ConsumerID]resource.Amounts{}
				}
				who := resource.ConsumerID(rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "consumer"))
				if used[p.ID][who] == nil {
					used[p.ID][who] = resource.Amounts{}
				}
				used[p.ID][who][c] = n
			}
		}
		if rapid.Bool().Draw(t, "remembered") {
			marks[p.ID] = Owned{Classes: rapid.SliceOfDistinct(rapid.SampledFrom(someClasses), rapid.ID[resource.Class]).Draw(t,
				"marked"), Traits: someOf(t, "marked")}
		}
	}
	return actual, used, marks
}

// TestPlansConverge tests that a plan passes Check, results in a tree that needs no plan, and takes nothing from a
// consumer at any step.
func TestPlansConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired := anyDesired(t)
		actual, used, marks := anyActual(t)
		plan, err := Make(Aim{Tree: desired}, actual, used, marks)
		if err != nil {
			t.Fatal(err)
		}
		if bad := Check(plan, Aim{}, actual, used, marks); len(bad) > 0 {
			t.Fatalf("Check rejects %+v: %v", plan, bad)
		}
		after := Apply(plan, actual)
		again, err := Make(Aim{Tree: desired}, after, used, plan.Owned)
		if err != nil || !again.Empty() {
			t.Fatalf("the next plan is not empty: %+v %v", again, err)
		}
		if !reflect.DeepEqual(again.Objections, plan.Objections) && len(again.Objections) > len(plan.Objections) {
			t.Fatalf("new objections afterwards: %v, before %v", again.Objections, plan.Objections)
		}
		blind, err := Make(Aim{Tree: desired}, actual, nil, marks)
		if err != nil || (blind.Empty() && !plan.Empty()) {
			t.Fatalf("uses add steps: %+v, without them %+v %v", plan, blind, err)
		}
		keepsWhatOthersHave(t, actual, after, used, marks)
		if len(plan.Objections) == 0 {
			reportsAll(t, desired, after)
		}
	})
}

// keepsWhatOthersHave checks, independently of the code under test, that nothing of other clients is lost.
func keepsWhatOthersHave(t *rapid.T, actual, after provider.Tree, used Uses, marks OwnedSet) {
	for _, was := range actual.Providers {
		is, exists := after.ByID(was.ID)
		if was.Parent != "" && !was.HasTrait(Managed) && len(was.Name) > 15 && !reflect.DeepEqual(was, is) {
			t.Fatalf("a foreign provider was changed: %+v, now %+v", was, is)
		}
		for class, i := range was.Inventories {
			for consumer, amounts := range used[was.ID] {
				if amounts[class] > 0 && is.Inventories[class].Total == 0 {
					t.Fatalf("%s lost its %s on %s", consumer, class, was.Name)
				}
			}
			if now, has := is.Inventories[class]; has && now.Reserved < min(i.Reserved, now.Total) {
				t.Fatalf("the reserve of %s on %s went from %d to %d", class, was.Name, i.Reserved, now.Reserved)
			}
		}
		for _, tr := range was.Traits {
			if exists && !is.HasTrait(tr) && !slices.Contains(marks[was.ID].Traits, tr) {
				t.Fatalf("%s lost the trait %s", was.Name, tr)
			}
		}
	}
}

// reportsAll checks that the tree has everything that is desired.
func reportsAll(t *rapid.T, desired, after provider.Tree) {
	for _, want := range desired.Providers {
		got, exists := after.ByName(want.Name)
		if !exists {
			t.Fatalf("%s is missing", want.Name)
		}
		for class, i := range want.Inventories {
			if got.Inventories[class].Total != i.Total {
				t.Fatalf("%s has %d %s, wants %d", want.Name, got.Inventories[class].Total, class, i.Total)
			}
		}
		for _, tr := range want.Traits {
			if !got.HasTrait(tr) {
				t.Fatalf("%s lacks %s", want.Name, tr)
			}
		}
	}
}
