package treeplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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

func TestLongListOfHoldersIsShortened(t *testing.T) {
	var all []resource.ConsumerID
	for i := range 9 {
		all = append(all, resource.ConsumerID(fmt.Sprint(i)))
	}
	if got := heldBy(all); got != "0, 1, 2, 3, 4, 4 others hold of it" {
		t.Error(got)
	}
}

// TestTraitsOfHeldDeviceChange tests that changed traits of a held device are written, with a warning that names the
// holders.
func TestTraitsOfHeldDeviceChange(t *testing.T) {
	actual := tree(host, pf("3b", stock("CUSTOM_NIC", 4), "CUSTOM_OLD"))
	marks := OwnedSet{"3b": {Classes: []resource.Class{"CUSTOM_NIC"}, Traits: traits(Managed, "CUSTOM_OLD")}}
	aim := Aim{Tree: tree(host, pf("3b", stock("CUSTOM_NIC", 4), "CUSTOM_NEW"))}
	plan, err := Make(aim, actual, uses("3b", "s1", "CUSTOM_NIC", 1), marks)
	if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0],
		"h_0000:3b:00.0 changes its traits (+CUSTOM_NEW -CUSTOM_OLD), and s1 holds of it") {
		t.Errorf("%v %v", plan.Notes, err)
	}
	if p, _ := Apply(plan, actual).ByID("3b"); !p.HasTrait("CUSTOM_NEW") || p.HasTrait("CUSTOM_OLD") {
		t.Errorf("%+v", p)
	}
}

// TestRatiosAndReserves tests that a configured ratio or reserve of the root is written, and that others keep the
// value in Placement.
func TestRatiosAndReserves(t *testing.T) {
	set := func(ratio float64, reserved int) inv {
		return with(stock("VCPU", 8), "VCPU", func(i *resource.Inventory) { i.AllocationRatio, i.Reserved = ratio, reserved })
	}
	for name, c := range map[string]struct {
		aim  Aim
		want inv
	}{
		"nothing is configured":    {Aim{Tree: tree(set(1, 0))}, set(4, 2)},
		"a ratio":                  {Aim{Tree: tree(set(2, 0)), Ratios: []resource.Class{"VCPU"}}, set(2, 2)},
		"less reserved":            {Aim{Tree: tree(set(1, 1)), ReservedClasses: []resource.Class{"VCPU"}}, set(4, 1)},
		"back to a ratio of one":   {Aim{Tree: tree(set(1, 0)), Ratios: []resource.Class{"VCPU"}}, set(1, 2)},
		"a larger reserve is kept": {Aim{Tree: tree(set(1, 1))}, set(4, 2)},
	} {
		actual := tree(set(4, 2))
		plan, err := Make(c.aim, actual, nil, nil)
		if err != nil || len(Check(plan, c.aim, actual, nil, nil)) > 0 {
			t.Errorf("%s: %v %v", name, err, plan)
		}
		if p, _ := Apply(plan, actual).ByID("H"); !maps.Equal(p.Inventories, c.want) {
			t.Errorf("%s: %+v", name, p.Inventories)
		}
	}
}

// A device provider that an interrupted report has only created is removed when the host no longer offers the device.
// One without marks that has another id, or anything in it, is another program's.
func TestRemovesWhatAReportHasOnlyBegun(t *testing.T) {
	begun := pf("81", nil)
	begun.ID, begun.Traits = provider.IDFromName("H", begun.Name), nil
	other, used := begun, begun
	other.ID = "81"
	used.Inventories = stock("CUSTOM_X", 1)
	for name, test := range map[string]struct {
		have    provider.Provider
		removed bool
	}{"begun": {begun, true}, "another id": {other, false}, "with an inventory": {used, false}} {
		plan, err := Make(Aim{Tree: tree(host)}, tree(host, test.have), nil, nil)
		if err != nil || (len(plan.Steps) == 1 && plan.Steps[0].Op == DeleteProvider) != test.removed {
			t.Errorf("%s: %+v %v", name, plan.Steps, err)
		}
	}
}
