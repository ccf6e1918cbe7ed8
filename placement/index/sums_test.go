package index_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestSums compares the sums with those of the rows, for trees in several aggregates.
func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	want, wantOf := index.Sums{}, map[resource.AggregateID]index.Sums{"a0": {}, "a1": {}, "a2": {}}
	var rows []index.Row
	for n := range 50 {
		root := provider.ID(fmt.Sprint("r", n))
		top := row(root, "", root)
		for i := range 4 - n/20 { // a0 has most trees, a3 fewest
			if r.IntN(i+1) == 0 {
				top.Aggregates = append(top.Aggregates, resource.AggregateID(fmt.Sprint("a", i)))
			}
		}
		tree := []index.Row{top, row(root+"x", root, root), row(root+"y", root, root)}
		for i := range tree {
			for _, class := range []resource.Class{"VCPU", "VGPU"} {
				inventory := resource.Inventory{Total: r.IntN(9) + 1, Reserved: r.IntN(2), MinUnit: 1, MaxUnit: 9, StepSize: 1,
					AllocationRatio: 1.5}
				tree[i].Inventories[class] = inventory
				if used := r.IntN(4); used > 0 {
					tree[i].Used[class] = used
				}
				add := func(to index.Sums) {
					to[class] = index.Sum{Capacity: to[class].Capacity + inventory.Capacity(),
						Used: to[class].Used + tree[i].Used[class]}
				}
				add(want)
				for _, a := range top.Aggregates {
					if wantOf[a] != nil {
						add(wantOf[a])
					}
				}
			}
		}
		rows = append(rows, tree...)
	}
	all, of := index.Build(rows).Sums(3)
	if !reflect.DeepEqual(all, want) || !reflect.DeepEqual(of, wantOf) {
		t.Errorf("%v %v, want %v %v", all, of, want, wantOf)
	}
}

// What is used of a reserved unit counts as used only, and a ratio of any size does not overflow the sums.
func TestStocks(t *testing.T) {
	var rows []index.Row
	add := func(id provider.ID, class resource.Class, used int, inventory resource.Inventory) {
		r := row(id, "", id)
		r.Inventories[class], r.Used[class] = inventory, used
		rows = append(rows, r)
	}
	reserved := func(total, n int, ratio float64) resource.Inventory {
		return resource.Inventory{Total: total, Reserved: n, MinUnit: 1, MaxUnit: total, StepSize: 1, AllocationRatio: ratio}
	}
	add("a", "VCPU", 10, reserved(16, 2, 4))
	add("b", "VCPU", 3, reserved(8, 0, 1))
	add("c", "VGPU", 1, reserved(1, 1, 1))
	add("d", "VGPU", 0, reserved(1, 1, 1))
	add("e", "DISK_GB", 6, reserved(4, 0, 1))
	add("f", "MEMORY_MB", 1, reserved(1<<31-1, 0, 1e30))
	add("g", "MEMORY_MB", 0, reserved(1<<31-1, 0, 1e30))
	want := map[resource.Class]index.Stock{"VCPU": {72, 8, 13}, "VGPU": {2, 1, 1}, "DISK_GB": {4, 0, 6},
		"MEMORY_MB": {1 << 45, 0, 1}}
	rows[1].Aggregates, rows[3].Aggregates = []resource.AggregateID{"x", "y"}, []resource.AggregateID{"x"}
	wantOf := map[resource.AggregateID]map[resource.Class]index.Stock{"x": {"VCPU": {8, 0, 3}, "VGPU": {1, 1, 0}}}
	if got, of := index.Build(rows).Stocks(1); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(of, wantOf) {
		t.Errorf("%v %v, want %v %v", got, of, want, wantOf)
	}
}
