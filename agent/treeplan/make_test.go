package treeplan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

type inv = map[resource.Class]resource.Inventory

// stock returns inventories from pairs of class and total.
func stock(pairs ...any) inv {
	out := inv{}
	for i := 0; i < len(pairs); i += 2 {
		out[resource.Class(pairs[i].(string))] = resource.Whole(pairs[i+1].(int))
	}
	return out
}

func traits(names ...resource.Trait) []resource.Trait { return names }

// tree returns a tree with a root h and children.
func tree(root inv, children ...provider.Provider) provider.Tree {
	t := provider.Tree{Providers: []provider.Provider{{ID: "H", Name: "h", Root: "H", Generation: 3, Inventories: root}}}
	for _, c := range children {
		c.Parent, c.Root = "H", "H"
		t.Providers = append(t.Providers, c)
	}
	return t
}

// pf returns a PCI provider at a bus, with generation 7; its id is the bus.
func pf(bus string, i inv, extra ...resource.Trait) provider.Provider {
	name := "h_0000:" + bus + ":00.0"
	return provider.Provider{ID: provider.ID(bus), Name: name, Generation: 7, Inventories: i,
		Traits: unique(append(extra, Managed))}
}

// uses returns usages from groups of provider, consumer, class and amount.
func uses(t ...any) Uses {
	out := Uses{}
	for i := 0; i < len(t); i += 4 {
		id, consumer := provider.ID(t[i].(string)), resource.ConsumerID(t[i+1].(string))
		if out[id] == nil {
			out[id] = map[resource.ConsumerID]resource.Amounts{}
		}
		out[id][consumer] = resource.Amounts{resource.Class(t[i+2].(string)): t[i+3].(int)}
	}
	return out
}

var host = stock("VCPU", 8, "MEMORY_MB", 1024, "DISK_GB", 100)

// with returns an inventory with one changed record.
func with(i inv, class resource.Class, change func(*resource.Inventory)) inv {
	out := maps.Clone(i)
	record := out[class]
	change(&record)
	out[class] = record
	return out
}

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

func TestReservedIsKeptAndNeverAboveTheTotal(t *testing.T) {
	actual := tree(host, pf("3b", with(stock("CUSTOM_NIC", 4), "CUSTOM_NIC",
		func(i *resource.Inventory) { i.Reserved = 3 })))
	plan, err := Make(Aim{Tree: tree(host, pf("3b", stock("CUSTOM_NIC", 2)))}, actual, nil, nil)
	if err != nil || len(plan.Steps) != 1 {
		t.Fatalf("%+v %v", plan, err)
	}
	if got := plan.Steps[0].Inventories["CUSTOM_NIC"]; got.Reserved != 2 || got.Total != 2 {
		t.Errorf("%+v", got)
	}
	if plan.Steps[0].Generation != 7 {
		t.Errorf("generation %d", plan.Steps[0].Generation)
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

func TestLongListOfHoldersIsShortened(t *testing.T) {
	var all []resource.ConsumerID
	for i := range 9 {
		all = append(all, resource.ConsumerID(fmt.Sprint(i)))
	}
	if got := heldBy(all); got != "0, 1, 2, 3, 4, 4 others hold of it" {
		t.Error(got)
	}
}

// TestUsageIsSummed tests that the usage of a class is the sum over all consumers.
func TestUsageIsSummed(t *testing.T) {
	for name, c := range map[string]struct {
		uses Uses
		who  []resource.ConsumerID
		used int
	}{
		"none":              {Uses{}, nil, 0},
		"an empty consumer": {Uses{"3b": {"s1": {}}}, nil, 0},
		"zero":              {uses("3b", "s1", "CUSTOM_NIC", 0), nil, 0},
		"another class":     {uses("3b", "s1", "CUSTOM_GPU", 1), nil, 0},
		"another provider":  {uses("3c", "s1", "CUSTOM_NIC", 1), nil, 0},
		"one":               {uses("3b", "s1", "CUSTOM_NIC", 2), []resource.ConsumerID{"s1"}, 2},
		"a sum over several": {uses("3b", "s2", "CUSTOM_NIC", 2, "3b", "s1", "CUSTOM_NIC", 1, "3b", "s3", "CUSTOM_GPU", 4),
			[]resource.ConsumerID{"s1", "s2"}, 3},
	} {
		if who, used := c.uses.holders("3b", "CUSTOM_NIC"); !slices.Equal(who, c.who) || used != c.used {
			t.Errorf("%s: %v have %d, want %v with %d", name, who, used, c.who, c.used)
		}
	}
}
