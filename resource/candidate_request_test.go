package resource

import (
	"reflect"
	"testing"
)

func TestAskInTree(t *testing.T) {
	traits, slow := [][]Trait{{"CUSTOM_FAST"}}, []Trait{"CUSTOM_SLOW"}
	device := Group{Suffix: "R-0", Resources: Amounts{"CUSTOM_GPU": 1}}
	in := func(g Group) Group { g.InTree = "tree"; return g }
	one := func(class Class, n int) Group {
		return Group{Suffix: "_IN_TREE", Resources: Amounts{class: n}, InTree: "tree"}
	}
	for name, test := range map[string]struct{ ask, want Ask }{
		"one class becomes a group": {
			Ask{Groups: []Group{{Resources: Amounts{"VCPU": 1, "MEMORY_MB": 2, "DISK_GB": 3}, Required: traits}}},
			Ask{Groups: []Group{{Resources: Amounts{"VCPU": 1, "DISK_GB": 3}, Required: traits}, one("MEMORY_MB", 2)}}},
		"beside another group": {
			Ask{Groups: []Group{{Resources: Amounts{"VCPU": 1, "DISK_GB": 3}}, device}},
			Ask{Groups: []Group{{Resources: Amounts{"DISK_GB": 3}}, device, one("VCPU", 1)}, GroupPolicy: PolicyNone}},
		"the traits go with the only class of a host": {
			Ask{Groups: []Group{{Resources: Amounts{"VCPU": 1, "DISK_GB": 3}, Required: traits, Forbidden: slow}}},
			Ask{Groups: []Group{{Resources: Amounts{"DISK_GB": 3}, Forbidden: slow}, {Suffix: "_IN_TREE",
				Resources: Amounts{"VCPU": 1}, Required: traits, Forbidden: slow, InTree: "tree"}}}},
		"the traits stay with another class": {
			Ask{Groups: []Group{{Resources: Amounts{"VCPU": 1, "CUSTOM_A": 3}, Required: traits}}},
			Ask{Groups: []Group{in(Group{Resources: Amounts{"VCPU": 1, "CUSTOM_A": 3}, Required: traits})}}},
		"no class of a host": {
			Ask{Groups: []Group{{Resources: Amounts{"DISK_GB": 3}}}},
			Ask{Groups: []Group{in(Group{Resources: Amounts{"DISK_GB": 3}})}}},
		"isolated groups": {
			Ask{Groups: []Group{{Resources: Amounts{"VCPU": 1, "DISK_GB": 3}}, device}, GroupPolicy: PolicyIsolate},
			Ask{Groups: []Group{{Resources: Amounts{"VCPU": 1, "DISK_GB": 3}}, in(device)}, GroupPolicy: PolicyIsolate}},
		"groups of ports": {Ask{Groups: []Group{device}}, Ask{Groups: []Group{in(device)}}},
	} {
		before := len(test.ask.Groups[0].Resources)
		if got := test.ask.InTree("tree"); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if len(test.ask.Groups[0].Resources) != before || test.ask.Groups[0].InTree != "" {
			t.Errorf("%s: the request was changed: %+v", name, test.ask)
		}
	}
}
