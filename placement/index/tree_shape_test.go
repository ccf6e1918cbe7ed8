package index_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// shaped returns the rows of a host with two cards of two ports each. All IDs and names contain n.
func shaped(n int) []index.Row {
	id := func(s string) provider.ID { return provider.ID(fmt.Sprintf("%s%d", s, n)) }
	rows := []index.Row{offer(row(id("r"), "", id("r")), "VCPU", 8, 3)}
	for c := range 2 {
		card := id(fmt.Sprintf("c%d-", c))
		rows = append(rows, row(card, id("r"), id("r")))
		for p := range 2 {
			port := offer(row(id(fmt.Sprintf("c%dp%d-", c, p)), card, id("r")), "NIC", 4, c+p)
			port.Traits = []resource.Trait{"CUSTOM_A"}
			port.Aggregates = []resource.AggregateID{"g"}
			rows = append(rows, port)
		}
	}
	return rows
}

// The shape depends on everything that a request can ask for, but not on names, generations or the order of the rows.
func TestShape(t *testing.T) {
	s := index.Build(append(shaped(1), shaped(2)...))
	whole := s.Lookup("r1").Shape
	if s.Lookup("r2").Shape != whole {
		t.Error("other names changed the shape")
	}
	shape := func(change func(rows []index.Row) []index.Row) index.Shape {
		rows := change(shaped(3))
		return s.Replace("r3", rows).Lookup("r3").Shape
	}
	reordered := shape(func(rows []index.Row) []index.Row {
		for i := range rows[1:] {
			rows[1+i].Name = fmt.Sprint(i)
			rows[1+i].Generation = i
		}
		slices.Reverse(rows)
		return rows
	})
	if reordered != whole {
		t.Error("another order of the rows changed the shape")
	}
	port := func(change func(r *index.Row)) func(rows []index.Row) []index.Row {
		return func(rows []index.Row) []index.Row { change(&rows[2]); return rows }
	}
	inventory := func(change func(i *resource.Inventory)) func(rows []index.Row) []index.Row {
		return port(func(r *index.Row) { i := r.Inventories["NIC"]; change(&i); r.Inventories["NIC"] = i })
	}
	seen := map[index.Shape]string{whole: "nothing"}
	for what, change := range map[string]func(rows []index.Row) []index.Row{
		"usage":     port(func(r *index.Row) { r.Used["NIC"] = 2 }),
		"class":     port(func(r *index.Row) { r.Inventories["VCPU"] = resource.Whole(1) }),
		"trait":     port(func(r *index.Row) { r.Traits = append(r.Traits, "CUSTOM_B") }),
		"sharing":   port(func(r *index.Row) { r.Traits = append(r.Traits, index.Sharing) }),
		"aggregate": port(func(r *index.Row) { r.Aggregates = append(r.Aggregates, "h") }),
		"place":     port(func(r *index.Row) { r.Parent = "r3" }),
		"swap": func(rows []index.Row) []index.Row {
			rows[2].Parent, rows[5].Parent = rows[5].Parent, rows[2].Parent
			return rows
		},
		"less":      func(rows []index.Row) []index.Row { return rows[:len(rows)-1] },
		"no root":   func(rows []index.Row) []index.Row { return rows[1:] },
		"total":     inventory(func(i *resource.Inventory) { i.Total++ }),
		"reserved":  inventory(func(i *resource.Inventory) { i.Reserved++ }),
		"min_unit":  inventory(func(i *resource.Inventory) { i.MinUnit++ }),
		"max_unit":  inventory(func(i *resource.Inventory) { i.MaxUnit++ }),
		"step_size": inventory(func(i *resource.Inventory) { i.StepSize++ }),
		"ratio":     inventory(func(i *resource.Inventory) { i.AllocationRatio = 2 }),
	} {
		got := shape(change)
		if other, found := seen[got]; found {
			t.Errorf("a change of %s has the same shape as a change of %s", what, other)
		}
		seen[got] = what
	}
}
