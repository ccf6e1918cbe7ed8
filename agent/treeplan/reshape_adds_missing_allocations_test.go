package treeplan

import (
	"maps"
	"strings"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// holder is what one consumer's guest has, and its whole allocation in Placement.
type holder struct {
	Expected
	has resource.Allocation
}

// guest returns the expected devices of a consumer, with its whole allocation in Placement.
func guest(allocation resource.Allocation, devices ...any) holder {
	h := holder{Expected: Expected{Devices: resource.Allocation{}}, has: allocation}
	for i := 0; i < len(devices); i += 2 {
		h.Devices[provider.ID(devices[i].(string))] = resource.Amounts{"CUSTOM_NIC": devices[i+1].(int)}
	}
	return h
}

// moving returns the holder during a possible move.
func moving(h holder) holder { h.State = Moving; return h }

// aimOf returns an aim with holders.
func aimOf(tree provider.Tree, holders map[resource.ConsumerID]holder) Aim {
	aim := Aim{Tree: tree, Expected: map[resource.ConsumerID]Expected{},
		Allocations: map[resource.ConsumerID]resource.Allocation{}}
	for consumer, h := range holders {
		aim.Expected[consumer], aim.Allocations[consumer] = h.Expected, h.has
	}
	return aim
}

func TestReshape(t *testing.T) {
	nics := func(n int) inv { return stock("CUSTOM_NIC", n) }
	burnt := with(nics(1), "CUSTOM_NIC", func(i *resource.Inventory) { i.Reserved = 1 })
	cpu := resource.Allocation{"H": {"VCPU": 1}}
	const missing = "reshape          shares of guests  "
	for _, c := range []struct {
		name            string
		desired, actual provider.Tree
		holds           map[resource.ConsumerID]holder
		uses            Uses
		want            string
		more            bool
	}{
		{name: "a device reported for the first time", desired: tree(host, pf("3b", nics(1))), actual: tree(host),
			holds: map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 1)}, uses: Uses{}, want: `
create class     CUSTOM_NIC
create provider  h_0000:3b:00.0  under h
put traits       h_0000:3b:00.0  +COMPUTE_MANAGED_PCI_DEVICE
` + missing + `s1 CUSTOM_NIC 0 → 1 of h_0000:3b:00.0
`},
		{name: "the same during a possible move: no consumer can have a provider that does not exist",
			desired: tree(host, pf("3b", nics(1))), actual: tree(host),
			holds: map[resource.ConsumerID]holder{"s1": moving(guest(cpu, "3b", 1))}, uses: Uses{}, want: `
create class     CUSTOM_NIC
create provider  h_0000:3b:00.0  under h
put traits       h_0000:3b:00.0  +COMPUTE_MANAGED_PCI_DEVICE
` + missing + `s1 CUSTOM_NIC 0 → 1 of h_0000:3b:00.0
`},
		{name: "a possible move, and the consumer has no allocation on the host",
			desired: tree(host, pf("3b", nics(1))), actual: tree(host),
			holds: map[resource.ConsumerID]holder{"s1": moving(guest(resource.Allocation{"elsewhere": {"VCPU": 1}}, "3b", 1))},
			uses:  Uses{}, want: `
create class     CUSTOM_NIC
create provider  h_0000:3b:00.0  under h
put traits       h_0000:3b:00.0  +COMPUTE_MANAGED_PCI_DEVICE
put inventories  h_0000:3b:00.0  CUSTOM_NIC 1
note             s1 holds 1 CUSTOM_NIC of h_0000:3b:00.0, and all that Placement has of it is on other hosts: its share is not written
`},
		{name: "a possible move, and the provider exists", desired: tree(host, pf("3b", nics(1))),
			actual: tree(host, pf("3b", nil)),
			holds:  map[resource.ConsumerID]holder{"s1": moving(guest(cpu, "3b", 1))}, uses: Uses{}, want: `
create class     CUSTOM_NIC
put inventories  h_0000:3b:00.0  CUSTOM_NIC 1
`},
		{name: "several guests and providers: one reshape", desired: tree(host, pf("3b", nics(4)), pf("3c", nics(4))),
			actual: tree(host, pf("3b", nics(4)), pf("3c", nics(4))),
			holds:  map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 1, "3c", 2), "s2": guest(cpu, "3b", 2)},
			uses:   uses("3b", "s2", "CUSTOM_NIC", 2), want: "\n" +
				missing + "s1 CUSTOM_NIC 0 → 1 of h_0000:3b:00.0, s1 CUSTOM_NIC 0 → 2 of h_0000:3c:00.0\n"},
		{name: "a wrong amount", desired: tree(host, pf("3b", nics(4))), actual: tree(host, pf("3b", nics(4))),
			holds: map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 3)}, uses: uses("3b", "s1", "CUSTOM_NIC", 1),
			want: "\n" +
				missing + "s1 CUSTOM_NIC 1 → 3 of h_0000:3b:00.0\n"},
		{name: "too large an allocation is reported and kept", desired: tree(host, pf("3b", nics(4))),
			actual: tree(host, pf("3b", nics(4))),
			holds:  map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 1)}, uses: uses("3b", "s1", "CUSTOM_NIC", 3), want: `
nothing to do
note             s1 has 3 CUSTOM_NIC of h_0000:3b:00.0 in Placement, and its guest has 1 of them; nothing is taken from it
`},
		{name: "a consumer without any allocation", desired: tree(host, pf("3b", nics(4))),
			actual: tree(host, pf("3b", nics(4))),
			holds:  map[resource.ConsumerID]holder{"s1": guest(nil, "3b", 1)}, uses: Uses{}, want: `
nothing to do
note             s1 holds 1 CUSTOM_NIC of h_0000:3b:00.0, but Placement has no allocation of it at all; put its other resources back first, then the agent adds the devices
`},
		{name: "an unknown consumer may be the same guest", desired: tree(host, pf("3b", nics(4))),
			actual: tree(host, pf("3b", nics(4))),
			holds:  map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 1)}, uses: uses("3b", "m1", "CUSTOM_NIC", 1), want: `
nothing to do
note             s1 holds 1 CUSTOM_NIC of h_0000:3b:00.0 and has 0 in Placement; its share is not written while m1, who has nothing here, has some there
`},
		{name: "both sides of a resize on the same host", desired: tree(host, pf("3b", nics(4))),
			actual: tree(host, pf("3b", nics(4))),
			holds:  map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 2), "m1": guest(cpu, "3b", 1)},
			uses:   uses("3b", "m1", "CUSTOM_NIC", 1, "3b", "s1", "CUSTOM_NIC", 2),
			want:   "nothing to do\n"},
		{name: "a possible move of one guest does not delay another", desired: tree(host, pf("3b", nics(4))),
			actual: tree(host, pf("3b", nics(4))),
			holds: map[resource.ConsumerID]holder{"s1": moving(guest(cpu, "3b", 1)),
				"s2": guest(cpu, "3b", 1)}, uses: Uses{}, want: "\n" +
				missing + "s2 CUSTOM_NIC 0 → 1 of h_0000:3b:00.0\n"},
		{name: "a used device for one-time use is reserved, with room only for its holder",
			desired: tree(host, pf("3b", burnt)),
			actual:  tree(host, pf("3b", burnt)),
			holds:   map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 1)}, uses: Uses{}, more: true, want: "\n" +
				missing + "s1 CUSTOM_NIC 0 → 1 of h_0000:3b:00.0\n"},
		{name: "more VFs than before, and one of them held without an allocation: one reshape",
			desired: tree(host, pf("3b", nics(4))), actual: tree(host, pf("3b", nics(2))),
			holds: map[resource.ConsumerID]holder{"s1": guest(cpu, "3b", 1)}, uses: Uses{}, want: "\n" +
				missing + "s1 CUSTOM_NIC 0 → 1 of h_0000:3b:00.0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			aim := aimOf(c.desired, c.holds)
			plan, err := Make(aim, c.actual, c.uses, nil)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := plan.Print(&b); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(b.String(), string(Reshape)); n > 1 {
				t.Errorf("%d reshapes", n)
			}
			if want := strings.TrimPrefix(c.want, "\n"); b.String() != want || plan.More != c.more {
				t.Errorf("more %v, got\n%swant\n%s", plan.More, b.String(), want)
			}
			if bad := Check(plan, aim, c.actual, c.uses, nil); len(bad) > 0 {
				t.Errorf("Check rejects the plan: %v", bad)
			}
			settles(t, aim, plan, c.actual, c.uses)
		})
	}
}

// settles checks that after the plan, and another one if it is incomplete, the next plan is empty, and that each
// consumer has its guest's devices.
func settles(t *testing.T, aim Aim, plan Plan, actual provider.Tree, used Uses) {
	t.Helper()
	for range 2 {
		actual, used = Apply(plan, actual), allocated(plan, used)
		for id, by := range used {
			p, _ := actual.ByID(id)
			total := 0
			for _, amounts := range by {
				total += amounts["CUSTOM_NIC"]
			}
			if inv := p.Inventories["CUSTOM_NIC"]; plan.More && inv.Capacity() < total {
				t.Errorf("%s has room for %d, but %d are used", p.Name, inv.Capacity(), total)
			}
		}
		var err error
		if plan, err = Make(aim, actual, used, plan.Owned); err != nil {
			t.Fatal(err)
		}
		if bad := Check(plan, aim, actual, used, plan.Owned); len(bad) > 0 {
			t.Errorf("Check rejects the next plan: %v", bad)
		}
	}
	if !plan.Empty() || plan.More {
		t.Errorf("the next plan is not empty: %+v", plan)
	}
}

// allocated returns the usages after the plan.
func allocated(plan Plan, used Uses) Uses {
	out := Uses{}
	for id, by := range used {
		out[id] = maps.Clone(by)
	}
	for _, s := range plan.Steps {
		for consumer, a := range s.Allocations {
			for id, amounts := range a {
				if out[id] == nil {
					out[id] = map[resource.ConsumerID]resource.Amounts{}
				}
				out[id][consumer] = amounts
			}
		}
	}
	return out
}
