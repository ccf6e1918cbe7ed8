package loop

import (
	"encoding/json"
	"testing"

	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func TestPlanDoc(t *testing.T) {
	for want, plan := range map[string]treeplan.Plan{
		`{"steps":[],"objections":[],"notes":["by the way"]}`: {Notes: []string{"by the way"}},
		`{"steps":[{"op":"reshape","name":"shares","stocks":{"p1":{"generation":2,"inventories":{"CUSTOM_A":{"total":1,` +
			`"reserved":0,"min_unit":1,"max_unit":1,"step_size":1,"allocation_ratio":1}}}},` +
			`"allocations":{"s1":{"p1":{"CUSTOM_A":1}}},"detail":"s1 0 → 1"}],"objections":[],"notes":[]}`: {
			Steps: []treeplan.Step{{Op: treeplan.Reshape, Name: "shares", Change: "s1 0 → 1",
				InventorySets: map[provider.ID]treeplan.InventorySet{"p1": {Generation: 2,
					Inventories: map[resource.Class]resource.Inventory{"CUSTOM_A": resource.Whole(1)}}},
				Allocations: map[resource.ConsumerID]resource.Allocation{"s1": {"p1": {"CUSTOM_A": 1}}}}}},
		`{"steps":[{"op":"create class","name":"CUSTOM_A","detail":""},` +
			`{"op":"create provider","name":"h","provider":"p1","detail":"under r"},` +
			`{"op":"put traits","name":"h","provider":"p1","generation":0,"traits":[],"detail":"-A"},` +
			`{"op":"put inventories","name":"h","provider":"p1","generation":3,"inventories":{"CUSTOM_A":{"total":2,` +
			`"reserved":0,"min_unit":1,"max_unit":2,"step_size":1,"allocation_ratio":1}},"detail":"CUSTOM_A 2"},` +
			`{"op":"delete provider","name":"x","provider":"p2","generation":7,"detail":""}],` +
			`"objections":[{"provider":"p1","name":"h","resource_class":"CUSTOM_B","consumers":["c"],` +
			`"message":"it is held"},{"consumers":[],"message":"no"}],"notes":[]}`: {
			Steps: []treeplan.Step{{Op: treeplan.CreateClass, Name: "CUSTOM_A"},
				{Op: treeplan.CreateProvider, Name: "h", Provider: "p1", Change: "under r"},
				{Op: treeplan.PutTraits, Name: "h", Provider: "p1", Change: "-A"},
				{Op: treeplan.PutInventories, Name: "h", Provider: "p1", Generation: 3, Change: "CUSTOM_A 2",
					Inventories: map[resource.Class]resource.Inventory{"CUSTOM_A": resource.Whole(2)}},
				{Op: treeplan.DeleteProvider, Name: "x", Provider: "p2", Generation: 7}},
			Objections: []treeplan.Objection{{Provider: "p1", Name: "h", Class: "CUSTOM_B",
				Consumers: []resource.ConsumerID{"c"},
				Text:      "it is held"}, {Text: "no"}},
		},
	} {
		got, err := json.Marshal(PlanDoc(plan))
		if err != nil || string(got) != want {
			t.Errorf("\n got %s\nwant %s (%v)", got, want, err)
		}
	}
}
