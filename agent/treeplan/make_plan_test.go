package treeplan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func TestMake(t *testing.T) {
	for _, c := range []struct {
		name            string
		desired, actual provider.Tree
		uses            Uses
		marks           OwnedSet
		want            string
	}{
		{name: "no change", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 4))),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4))),
			want:   "nothing to do\n"},
		{name: "a new host", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 4), "CUSTOM_FAST")), want: `
create trait     CUSTOM_FAST
create class     CUSTOM_NIC
create provider  h  a root
put inventories  h  DISK_GB 100, MEMORY_MB 1024, VCPU 8
create provider  h_0000:3b:00.0  under h
put traits       h_0000:3b:00.0  +COMPUTE_MANAGED_PCI_DEVICE +CUSTOM_FAST
put inventories  h_0000:3b:00.0  CUSTOM_NIC 4
`},
		{name: "an interrupted creation", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 4))),
			actual: tree(host, provider.Provider{ID: "3b", Name: "h_0000:3b:00.0"}), want: `
create class     CUSTOM_NIC
put traits       h_0000:3b:00.0  +COMPUTE_MANAGED_PCI_DEVICE
put inventories  h_0000:3b:00.0  CUSTOM_NIC 4
`},
		{name: "a class that a sibling has exists", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 4)),
			pf("3c", stock("CUSTOM_NIC", 4))),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4)), pf("3c", nil)), want: `
put inventories  h_0000:3c:00.0  CUSTOM_NIC 4
`},
		{name: "a removed device", desired: tree(host), actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4))), want: `
delete provider  h_0000:3b:00.0  the host no longer offers the device
`},
		{name: "a removed device that is held", desired: tree(host), actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4))),
			uses: uses("3b", "s1", "CUSTOM_NIC", 1), want: `
nothing to do
cannot           h_0000:3b:00.0 keeps its CUSTOM_NIC: the host no longer offers the device, but s1 holds of it
`},
		{name: "a changed class", desired: tree(host, pf("3b", stock("CUSTOM_GPU", 1))),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4))), want: `
create class     CUSTOM_GPU
put inventories  h_0000:3b:00.0  CUSTOM_GPU 1, CUSTOM_NIC 4 → none
`},
		{name: "a changed class that is held", desired: tree(host, pf("3b", stock("CUSTOM_GPU", 1), "CUSTOM_NEW")),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4))),
			uses:   uses("3b", "s2", "CUSTOM_NIC", 1, "3b", "s1", "CUSTOM_NIC", 2), want: `
nothing to do
cannot           h_0000:3b:00.0 keeps its CUSTOM_NIC: the host no longer reports it, but s1, s2 hold of it
`},
		{name: "fewer functions", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 2))),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4))),
			uses:   uses("3b", "s1", "CUSTOM_NIC", 1), want: `
put inventories  h_0000:3b:00.0  CUSTOM_NIC 4 → 2
`},
		{name: "fewer functions than are held", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 2))),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4))),
			uses:   uses("3b", "s1", "CUSTOM_NIC", 3), want: `
put inventories  h_0000:3b:00.0  CUSTOM_NIC 4 → 3
cannot           h_0000:3b:00.0 keeps its CUSTOM_NIC: only 2 of them can still be offered, but s1 holds of it
`},
		{name: "traits and inventories of other clients", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 2), "CUSTOM_A")),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4, "NET_BW_EGR_KILOBIT_PER_SEC", 10), "CUSTOM_B", "OWNER_NOVA")),
			want: `
create trait     CUSTOM_A
put traits       h_0000:3b:00.0  +CUSTOM_A
put inventories  h_0000:3b:00.0  CUSTOM_NIC 4 → 2
`},
		{name: "traits and inventories that the agent has written", desired: tree(host, pf("3b", stock("CUSTOM_GPU", 1),
			"CUSTOM_A")),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 4, "CUSTOM_FOREIGN", 1), "CUSTOM_B", "CUSTOM_C")),
			marks:  OwnedSet{"3b": {Classes: []resource.Class{"CUSTOM_NIC"}, Traits: traits(Managed, "CUSTOM_B")}}, want: `
create trait     CUSTOM_A
create class     CUSTOM_GPU
put traits       h_0000:3b:00.0  +CUSTOM_A -CUSTOM_B
put inventories  h_0000:3b:00.0  CUSTOM_GPU 1, CUSTOM_NIC 4 → none
`},
		{name: "a reserve and a ratio of an operator", desired: tree(with(host, "VCPU",
			func(i *resource.Inventory) { i.Total, i.MaxUnit = 16, 16 })),
			actual: tree(with(with(host, "VCPU", func(i *resource.Inventory) { i.AllocationRatio, i.Reserved = 4, 2 }),
				"DISK_GB", func(i *resource.Inventory) { i.Reserved = 9 })),
			want: "\nput inventories  h  VCPU 8 → 16\n"},
		{name: "a device for one-time use is used", desired: tree(host,
			pf("3b", with(stock("CUSTOM_NIC", 1), "CUSTOM_NIC", func(i *resource.Inventory) { i.Reserved = 1 }))),
			actual: tree(host, pf("3b", stock("CUSTOM_NIC", 1))), uses: uses("3b", "s1", "CUSTOM_NIC", 1), want: `
put inventories  h_0000:3b:00.0  CUSTOM_NIC 1, reserved 0 → 1
`},
		{name: "a foreign class and trait on the root", desired: tree(host), actual: func() provider.Tree {
			t := tree(with(host, "CUSTOM_LICENCE", func(i *resource.Inventory) { *i = resource.Whole(3) }))
			t.Providers[0].Traits = traits("CUSTOM_RACK_7")
			return t
		}(), want: "nothing to do\n"},
		{name: "a removed root class that is held", desired: tree(stock("VCPU", 8, "MEMORY_MB", 2048)), actual: tree(host),
			uses: uses("H", "s1", "DISK_GB", 10), want: `
put inventories  h  MEMORY_MB 1024 → 2048
cannot           h keeps its DISK_GB: the host no longer reports it, but s1 holds of it
`},
		{name: "a foreign child", desired: tree(host), actual: tree(host,
			provider.Provider{ID: "F", Name: "h_NIC Agent", Inventories: stock("NET_BW_EGR_KILOBIT_PER_SEC", 1)}),
			want: "nothing to do\n"},
		{name: "a foreign child below a removed device", desired: tree(host), actual: func() provider.Tree {
			t := tree(host, pf("3b", stock("CUSTOM_NIC", 1)))
			t.Providers = append(t.Providers, provider.Provider{ID: "F", Name: "foreign", Parent: "3b", Root: "H"})
			return t
		}(), want: `
nothing to do
cannot           h_0000:3b:00.0 stays: the host no longer offers the device, but the provider foreign is its child
`},
		{name: "a total of 0 is not an inventory", desired: tree(host, pf("3b", stock("CUSTOM_NIC", 0))),
			actual: tree(host, pf("3b", nil)), want: "nothing to do\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := Make(Aim{Tree: c.desired}, c.actual, c.uses, c.marks)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := plan.Print(&b); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimPrefix(c.want, "\n"); b.String() != want {
				t.Errorf("got\n%swant\n%s", b.String(), want)
			}
			if bad := Check(plan, Aim{}, c.actual, c.uses, c.marks); len(bad) > 0 {
				t.Errorf("Check rejects the plan: %v", bad)
			}
		})
	}
}

func TestMakePutsChildrenBelowTheActualRoot(t *testing.T) {
	desired := tree(host, pf("3b", stock("CUSTOM_NIC", 1)))
	desired.Providers[0].ID, desired.Providers[1].Parent = "forgotten", "forgotten"
	plan, err := Make(Aim{Tree: desired}, tree(host), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(plan.Steps, func(s Step) bool { return s.Op == CreateProvider })
	if s := plan.Steps[i]; s.Provider != "3b" || s.Parent != "H" {
		t.Errorf("%+v", s)
	}
	if want := (Owned{Classes: []resource.Class{"CUSTOM_NIC"},
		Traits: traits(Managed)}); !reflect.DeepEqual(plan.Owned["3b"], want) {
		t.Errorf("marks %+v", plan.Owned)
	}
}

func TestMakeRefuses(t *testing.T) {
	child := provider.Provider{ID: "x", Name: "x", Parent: "missing"}
	nameless := tree(host)
	nameless.Providers[0].ID = ""
	other := tree(host)
	other.Providers[0].Name = "another host"
	for name, c := range map[string]struct {
		desired, actual provider.Tree
		kind            fault.Kind
	}{
		"no root":               {provider.Tree{}, tree(host), fault.Invalid},
		"an orphan":             {provider.Tree{Providers: append(tree(host).Providers, child)}, tree(host), fault.Invalid},
		"no id":                 {nameless, tree(host), fault.Invalid},
		"a name twice":          {tree(host, pf("3b", nil), pf("3b", nil)), tree(host), fault.Invalid},
		"a foreign tree":        {tree(host), other, fault.Conflict},
		"a tree without a root": {tree(host), provider.Tree{Providers: []provider.Provider{child}}, fault.Conflict},
	} {
		if plan, err := Make(Aim{Tree: c.desired}, c.actual, nil, nil); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v %+v", name, err, plan)
		}
	}
}
