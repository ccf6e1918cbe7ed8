package treeplan

import (
	"maps"
	"testing"

	"github.com/openberth/berth/resource"
)

// A provider whose devices a consumer holds that compute has not confirmed is not created yet: the plan names that
// consumer. When compute has confirmed it, or its devices are freed, the provider is created.
func TestProviderOfUnconfirmedHolderIsPostponed(t *testing.T) {
	hold := func(s HolderState) map[resource.ConsumerID]Expected {
		return map[resource.ConsumerID]Expected{"s1": {State: s,
			Devices: resource.Allocation{"81": {"CUSTOM_GPU": 1}}}}
	}
	for name, c := range map[string]struct {
		expected  map[resource.ConsumerID]Expected
		exists    bool
		postponed map[resource.ConsumerID]bool
		creates   bool
	}{
		"pending":                      {hold(Pending), false, map[resource.ConsumerID]bool{"s1": true}, false},
		"confirmed":                    {hold(Assigned), false, nil, true},
		"freed":                        {nil, false, nil, true},
		"pending, the provider exists": {hold(Pending), true, nil, false},
	} {
		aim := Aim{Tree: tree(host, pf("81", stock("CUSTOM_GPU", 1))), Expected: c.expected}
		actual := tree(host)
		if c.exists {
			actual = aim.Tree
		}
		plan, err := Make(aim, actual, Uses{}, OwnedSet{})
		if err != nil {
			t.Fatal(err)
		}
		creates := false
		for _, s := range plan.Steps {
			creates = creates || s.Op == CreateProvider && s.Provider == "81"
		}
		if !maps.Equal(plan.Postponed, c.postponed) || creates != c.creates {
			t.Errorf("%s: postponed %v, steps %v", name, plan.Postponed, plan.Steps)
		}
	}
}
