package slotsurvey

import (
	"testing"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/provider"
)

// planned returns the plan from Placement's tree to a result, as the agent makes it: the reserved amounts of slots are
// those of the result.
func planned(t *testing.T, f Facts, r Result) treeplan.Plan {
	t.Helper()
	returned := map[provider.ID]bool{}
	for id := range r.Slots {
		returned[id] = true
	}
	plan, err := treeplan.Make(treeplan.Aim{Tree: r.Tree, Returned: returned}, f.Actual, f.Consumers, nil)
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
