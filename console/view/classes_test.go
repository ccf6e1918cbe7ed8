package view

import (
	"math"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Each unit of an inventory has one state, except what is used beyond it.
func TestCountsOfInventory(t *testing.T) {
	reserved := func(total, n int, ratio float64) resource.Inventory {
		return resource.Inventory{Total: total, Reserved: n, AllocationRatio: ratio}
	}
	for _, c := range []struct {
		inventory resource.Inventory
		used      int
		offers    bool
		want      Counts
	}{
		{resource.Whole(8), 3, true, Counts{Held: 3, Free: 5, Of: 8}},
		{resource.Whole(8), 3, false, Counts{Held: 3, Off: 5, Of: 8}},
		{reserved(8, 2, 1), 3, true, Counts{Held: 3, Spent: 2, Free: 3, Of: 8}},
		{reserved(1, 1, 1), 1, true, Counts{Held: 1, Of: 1}},
		{reserved(1, 1, 1), 0, false, Counts{Spent: 1, Of: 1}},
		{reserved(16, 2, 4), 10, true, Counts{Held: 10, Spent: 8, Free: 46, Of: 64}},
		{resource.Whole(4), 6, true, Counts{Held: 6, Of: 4}},
		{resource.Whole(0), 0, true, Counts{}},
		{reserved(math.MaxInt32, 0, 1e30), 1, true, Counts{Held: 1, Free: maxCount - 1, Of: maxCount}},
	} {
		if got := countsOfInventory(c.inventory, c.used, c.offers); got != c.want {
			t.Errorf("%+v of which %d are used: %+v, want %+v", c.inventory, c.used, got, c.want)
		}
	}
}

// Classes are summed over the providers of a host, by aggregate; shared inventory belongs to no host. A host in two
// aggregates counts in each and once in all.
func TestClasses(t *testing.T) {
	s := &fleet.Snapshot{}
	add := func(name, root string, used int, traits ...resource.Trait) {
		p := fleet.Provider{Provider: provider.Provider{ID: provider.ID(name), Name: name, Root: provider.ID(root),
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_GPU": resource.Whole(4)}, Traits: traits},
			Held: map[resource.ConsumerID]resource.Amounts{"x": {"CUSTOM_GPU": used}}}
		if name != root {
			p.Parent = provider.ID(root)
		}
		s.Providers = append(s.Providers, p)
	}
	add("a", "a", 1)
	add("a_1", "a", 2)
	add("b", "b", 4)
	add("c", "c", 0)
	add("shared", "shared", 1, "MISC_SHARES_VIA_AGGREGATE")
	in := func(name string, hosts ...string) compute.Aggregate {
		return compute.Aggregate{UUID: map[string]string{"one": "a1"}[name], Name: name,
			AggregateContent: &compute.AggregateContent{Hosts: hosts}}
	}
	c := New(Source{Fleet: fleet.NewView(s), Aggregates: []compute.Aggregate{in("two", "a", "b"), in("one", "a"),
		in("none")}, Reports: []host.Report{{Host: "b", Connected: true, Disabled: true}, {Host: "new", Connected: true}}})
	all := c.ClassesOf("")
	if len(all.Rows) != 1 || all.Rows[0] != (ClassRow{"CUSTOM_GPU", Counts{Held: 8, Free: 12, Of: 20}, 20}) ||
		all.Hosts != 4 {
		t.Fatalf("%+v", all)
	}
	want := []ClassGroup{{"one", true, 1, []ClassRow{{"CUSTOM_GPU", Counts{Held: 3, Free: 5, Of: 8}, 12}}},
		{"two", true, 2, []ClassRow{{"CUSTOM_GPU", Counts{Held: 7, Free: 5, Of: 12}, 12}}},
		{noAggregate, false, 2, []ClassRow{{"CUSTOM_GPU", Counts{Free: 4, Of: 4}, 12}}},
		{sharedInventory, false, 0, []ClassRow{{"CUSTOM_GPU", Counts{Held: 1, Free: 3, Of: 4}, 12}}}}
	if len(all.Groups) != len(want) {
		t.Fatalf("%+v", all.Groups)
	}
	for i, group := range want {
		got := all.Groups[i]
		if got.Name != group.Name || got.Aggregate != group.Aggregate || got.Hosts != group.Hosts ||
			got.Cells[0] != group.Cells[0] {
			t.Errorf("%+v, want %+v", got, group)
		}
	}
	if got := all.Groups[1].Cells[0]; got.Part(got.Of) != 1000 || got.Part(got.Held) != 583 ||
		got.NumberOf(7) != "7 of 12" {
		t.Errorf("%+v", got)
	}
	if found := c.Table(FleetQuery{Find: "custom_gpu"}).Hosts; found != 3 {
		t.Errorf("%d hosts have the class", found)
	}
	one := c.ClassesOf("one")
	if one.AggregateID != "a1" || all.AggregateID != "" || one.Hosts != 1 || one.All != 4 ||
		one.Groups != nil || one.Rows[0].Of != 8 {
		t.Errorf("%+v", one)
	}
	if none := c.ClassesOf("none"); none == nil || len(none.Rows) != 0 || c.ClassesOf("other") != nil {
		t.Errorf("%+v", none)
	}
}
