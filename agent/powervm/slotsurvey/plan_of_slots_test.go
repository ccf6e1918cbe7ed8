package slotsurvey

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// planned returns the plan from Placement's tree to a result, as the agent makes it: the reserved amounts of slots are
// those of the result.
func planned(t *testing.T, f Facts, r Result, owned ...treeplan.OwnedSet) treeplan.Plan {
	t.Helper()
	returned := map[provider.ID]bool{}
	for id := range r.Slots {
		returned[id] = true
	}
	var before treeplan.OwnedSet // what the agent wrote before
	if len(owned) > 0 {
		before = owned[0]
	}
	plan, err := treeplan.Make(treeplan.Aim{Tree: r.Tree, Returned: returned}, f.Actual, f.Consumers, before)
	if err != nil || len(plan.Objections) > 0 {
		t.Fatalf("%v %v", plan.Objections, err)
	}
	return plan
}

// The tree of a result is one that the planner accepts, it is reached in one plan, and then there is nothing to do.
func TestTreeplanReachesTheResult_R42(t *testing.T) {
	f := facts(t, gpuFile)
	f.System.Slots[1].Owner = ioslot.Owner{Kind: ioslot.Owned, PartitionID: 2}
	reserved := desired(t, f)
	if plan := planned(t, f, reserved); len(plan.Steps) == 0 {
		t.Error("nothing is planned for a new host")
	}
	f = f.written(reserved)
	if plan := planned(t, f, reserved); len(plan.Steps) != 0 {
		t.Errorf("planned again: %+v", plan.Steps)
	}
	f.System.Slots[1].Owner = ioslot.Owner{Kind: ioslot.Unowned}
	free := desired(t, f)
	plan := planned(t, f, free)
	if len(plan.Steps) != 1 || plan.Steps[0].Op != treeplan.PutInventories ||
		plan.Steps[0].Inventories["CUSTOM_GPU"].Reserved != 0 {
		t.Errorf("%+v", plan.Steps)
	}
}

// A trait that is removed from the file is removed from the provider. Traits of others stay.
func TestRemovedTraitIsRemovedFromTheProvider_R39_R22(t *testing.T) {
	f := facts(t, strings.Replace(gpuFile, "[CUSTOM_FAST]", "[CUSTOM_FAST, CUSTOM_OLD]", 1))
	f.Actual = hostTree(t)
	first := desired(t, f)
	owned := planned(t, f, first).Owned
	f = f.written(first)
	for i := range f.Actual.Providers {
		f.Actual.Providers[i].Traits = append(f.Actual.Providers[i].Traits, "CUSTOM_FOREIGN")
	}
	f.Rules = facts(t, gpuFile).Rules
	puts := 0
	for _, step := range planned(t, f, desired(t, f), owned).Steps {
		if step.Op != treeplan.PutTraits {
			continue
		}
		puts++
		for trait, want := range map[resource.Trait]bool{"CUSTOM_OLD": false, "CUSTOM_FAST": true, "CUSTOM_FOREIGN": true,
			"CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE": true} {
			if slices.Contains(step.Traits, trait) != want {
				t.Errorf("%s: %s is there: %v; %v", step.Name, trait, !want, step.Traits)
			}
		}
	}
	if puts != 2 {
		t.Errorf("%d providers get other traits, not 2", puts)
	}
}
