package treeplan

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestCheckRefuses tests plans that Make never makes.
func TestCheckRefuses(t *testing.T) {
	actual := tree(with(host, "CUSTOM_LICENCE", func(i *resource.Inventory) { *i = resource.Whole(3) }),
		pf("3b", stock("CUSTOM_NIC", 4), "CUSTOM_B"),
		provider.Provider{ID: "F", Name: "foreign", Generation: 1})
	held := uses("3b", "s1", "CUSTOM_NIC", 3)
	for name, c := range map[string]struct {
		step Step
		want string
	}{
		"a foreign provider deleted":  {Step{Op: DeleteProvider, Provider: "F", Generation: 1}, "touches foreign"},
		"a foreign provider's traits": {Step{Op: PutTraits, Provider: "F", Generation: 1}, "touches foreign"},
		"an unknown provider":         {Step{Op: PutTraits, Provider: "?", Name: "who"}, "touches who"},
		"a provider twice":            {Step{Op: CreateProvider, Provider: "new", Name: "foreign"}, "creates foreign"},
		"a held provider deleted":     {Step{Op: DeleteProvider, Provider: "3b", Generation: 7}, "s1 holds"},
		"held inventory deleted":      {Step{Op: PutInventories, Provider: "3b", Generation: 7}, "drops CUSTOM_NIC"},
		"a total below the usage": {Step{Op: PutInventories, Provider: "3b", Generation: 7,
			Inventories: stock("CUSTOM_NIC", 2)}, "leaves 2 CUSTOM_NIC"},
		"an old generation": {Step{Op: PutInventories, Provider: "3b", Generation: 6,
			Inventories: stock("CUSTOM_NIC", 4)}, "generation 6"},
		"a foreign trait": {Step{Op: PutTraits, Provider: "3b", Generation: 7, Traits: traits(Managed)},
			"trait CUSTOM_B"},
		"a foreign class": {Step{Op: PutInventories, Provider: "H", Generation: 3, Inventories: host},
			"takes CUSTOM_LICENCE"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(Plan{Steps: []Step{c.step}}, Aim{}, actual, held, nil)
			if len(got) == 0 || !slices.ContainsFunc(got, func(o Objection) bool { return strings.Contains(o.Text, c.want) }) {
				t.Errorf("%v", got)
			}
		})
	}
	reserved := tree(with(host, "VCPU", func(i *resource.Inventory) { i.Reserved = 2 }))
	if got := Check(Plan{Steps: []Step{{Op: PutInventories, Provider: "H", Generation: 3, Inventories: host}}}, Aim{},
		reserved, nil, nil); len(got) != 1 {
		t.Errorf("a lowered reserve: %v", got)
	}
	if got := Check(Plan{}, Aim{}, actual, held, nil); len(got) != 0 {
		t.Errorf("the empty plan: %v", got)
	}
}

// TestCheckRefusesReshapes tests reshapes that Make never makes.
func TestCheckRefusesReshapes(t *testing.T) {
	actual := tree(host, pf("3b", stock("CUSTOM_NIC", 4)), provider.Provider{ID: "F", Name: "foreign", Generation: 1,
		Inventories: stock("CUSTOM_NIC", 1)})
	aim := aimOf(actual, map[resource.ConsumerID]holder{"s1": guest(resource.Allocation{"H": {"VCPU": 2},
		"3b": {"CUSTOM_NIC": 1}}, "3b", 2)})
	valid := map[provider.ID]InventorySet{"3b": {Generation: 7, Inventories: stock("CUSTOM_NIC", 4)}}
	for name, c := range map[string]struct {
		stocks map[provider.ID]InventorySet
		to     resource.Allocation
		want   string
	}{
		"another resource lost": {valid, resource.Allocation{"3b": {"CUSTOM_NIC": 2}}, "s1 would lose 2 VCPU of H"},
		"a device lost": {valid, resource.Allocation{"H": {"VCPU": 2}, "3b": {"CUSTOM_NIC": 0}},
			"s1 would lose 1 CUSTOM_NIC of 3b"},
		"more than it holds": {valid, resource.Allocation{"H": {"VCPU": 2}, "3b": {"CUSTOM_NIC": 3}},
			"s1 would get 3 CUSTOM_NIC"},
		"something else": {valid, resource.Allocation{"H": {"VCPU": 3}, "3b": {"CUSTOM_NIC": 1}},
			"s1 would get 3 VCPU"},
		"a foreign provider":  {map[provider.ID]InventorySet{"F": {Generation: 1}}, nil, "touches foreign"},
		"an unknown provider": {map[provider.ID]InventorySet{"?": {}}, nil, "touches ?"},
		"an old generation": {map[provider.ID]InventorySet{"3b": {Generation: 6, Inventories: stock("CUSTOM_NIC", 4)}},
			nil, "generation 6"},
		"held inventory lost": {map[provider.ID]InventorySet{"3b": {Generation: 7}}, nil, "drops CUSTOM_NIC"},
	} {
		t.Run(name, func(t *testing.T) {
			step := Step{Op: Reshape, InventorySets: c.stocks}
			if c.to != nil {
				step.Allocations = map[resource.ConsumerID]resource.Allocation{"s1": c.to}
			}
			got := Check(Plan{Steps: []Step{step}}, aim, actual, uses("3b", "s1", "CUSTOM_NIC", 1), nil)
			if !slices.ContainsFunc(got, func(o Objection) bool { return strings.Contains(o.Text, c.want) }) {
				t.Errorf("%v", got)
			}
		})
	}
}
