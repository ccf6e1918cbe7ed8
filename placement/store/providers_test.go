package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func testProviders(t *testing.T, s *Store) {
	ctx := t.Context()
	root, change, err := s.CreateProvider(ctx, id(1), "root", "")
	ok(t, err)
	equal(t, "root", root.Provider, provider.Provider{ID: id(1), Name: "root", Root: id(1)})
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}})
	if root.Modified.IsZero() {
		t.Error("no modification time")
	}
	child, change, err := s.CreateProvider(ctx, id(2), "child", id(1))
	ok(t, err)
	equal(t, "child", child.Provider, provider.Provider{ID: id(2), Name: "child", Parent: id(1), Root: id(1)})
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}})

	_, _, err = s.CreateProvider(ctx, id(3), "root", "")
	refused(t, err, fault.Conflict, codeDuplicate, `"root"`)
	_, _, err = s.CreateProvider(ctx, id(2), "other", "")
	refused(t, err, fault.Conflict, codeDuplicate, string(id(2)))
	_, _, err = s.CreateProvider(ctx, id(3), "other", id(9))
	refused(t, err, fault.Invalid, "", "does not exist")
	_, _, err = s.CreateProvider(ctx, id(3), "other", id(3))
	refused(t, err, fault.Invalid, "", "own parent")
	_, err = s.Provider(ctx, id(3))
	refused(t, err, fault.NotFound, "", string(id(3)))

	renamed, _, err := s.UpdateProvider(ctx, id(2), Update{Name: "kid"})
	ok(t, err)
	equal(t, "renamed", renamed.Provider, provider.Provider{ID: id(2), Name: "kid", Parent: id(1), Root: id(1)})
	_, _, err = s.UpdateProvider(ctx, id(2), Update{Name: "root"})
	refused(t, err, fault.Conflict, codeDuplicate, `"root"`)
	_, _, err = s.UpdateProvider(ctx, id(3), Update{Name: "x"})
	refused(t, err, fault.NotFound, "", string(id(3)))
}

func testFilters(t *testing.T, s *Store) {
	ctx := t.Context()
	for n, parent := range []int{0, 0, 1, 2, 0} { // 1 ← 2 ← 3; 4
		if n > 0 {
			host(t, s, n, parent*min(n-1, 1))
		}
	}
	for n, members := range map[int][]resource.AggregateID{1: {aggregate(900)}, 3: {aggregate(900), aggregate(901)},
		4: {aggregate(902)}} {
		_, err := s.ReplaceAggregates(ctx, id(n), nil, members)
		ok(t, err)
	}
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "p1 p2 p3 p4"},
		{Filter{Name: "p2"}, "p2"},
		{Filter{ID: id(3)}, "p3"},
		{Filter{ID: id(3), Name: "p2"}, ""},
		{Filter{InTree: id(3)}, "p1 p2 p3"},
		{Filter{InTree: id(7)}, ""},
		{Filter{MemberOf: [][]resource.AggregateID{{aggregate(900), aggregate(902)}}}, "p1 p3 p4"},
		{Filter{MemberOf: [][]resource.AggregateID{{aggregate(900)}, {aggregate(901)}}}, "p3"},
		{Filter{MemberOf: [][]resource.AggregateID{{aggregate(999)}}}, ""},
		{Filter{NotMemberOf: []resource.AggregateID{aggregate(901), aggregate(902)}}, "p1 p2"},
		{Filter{InTree: id(1), NotMemberOf: []resource.AggregateID{aggregate(901)},
			MemberOf: [][]resource.AggregateID{{aggregate(900)}}}, "p1"},
	} {
		list, err := s.Providers(ctx, c.filter)
		ok(t, err)
		var got []string
		for _, p := range list {
			got = append(got, p.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.filter, got, c.want)
		}
	}
}

func testMove(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	host(t, s, 2, 0)
	host(t, s, 3, 2)
	host(t, s, 4, 3)
	_, _, err := s.UpdateProvider(ctx, id(2), Update{Name: "p2", Move: true, Parent: id(4), Free: true})
	refused(t, err, fault.Invalid, "", "loop")
	_, _, err = s.UpdateProvider(ctx, id(2), Update{Name: "p2", Move: true, Parent: id(2), Free: true})
	refused(t, err, fault.Invalid, "", "loop")
	_, _, err = s.UpdateProvider(ctx, id(2), Update{Name: "p2", Move: true, Parent: id(9), Free: true})
	refused(t, err, fault.Invalid, "", "does not exist")
	_, _, err = s.UpdateProvider(ctx, id(3), Update{Name: "p3", Move: true, Parent: id(1)})
	refused(t, err, fault.Invalid, "", "1.37")
	_, _, err = s.UpdateProvider(ctx, id(3), Update{Name: "p3", Move: true})
	refused(t, err, fault.Invalid, "", "1.37")
	before := dump(t, s)
	_, _, err = s.UpdateProvider(ctx, id(3), Update{Name: "p3", Move: true, Parent: id(2)})
	ok(t, err)
	equal(t, "changes by a move to the same parent", diff(before, dump(t, s)), []string(nil))

	moved, change, err := s.UpdateProvider(ctx, id(2),
		Update{Name: "p2", Move: true, Parent: id(1)}) // a root may always move
	ok(t, err)
	equal(t, "moved", []provider.ID{moved.Parent, moved.Root}, []provider.ID{id(1), id(1)})
	equal(t, "change", change, Change{Roots: []provider.ID{id(1), id(2)}, Generation: 1})
	rows, err := s.TreeRows(ctx, id(2))
	ok(t, err)
	equal(t, "providers of the old tree", len(rows), 0)
	rows, err = s.TreeRows(ctx, id(1))
	ok(t, err)
	equal(t, "providers of the new tree", len(rows), 4)

	_, change, err = s.UpdateProvider(ctx, id(3), Update{Name: "p3", Move: true, Free: true})
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1), id(3)}, Generation: 1})
	four, err := s.Provider(ctx, id(4))
	ok(t, err)
	equal(t, "parent and root of the child", []provider.ID{four.Parent, four.Root}, []provider.ID{id(3), id(3)})
}

// testMoveRace moves two trees under each other at the same time. One of the moves must be refused.
func testMoveRace(t *testing.T, s *Store) {
	host(t, s, 1, 0)
	host(t, s, 2, 0)
	for round := range 5 {
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range 2 {
			wg.Go(func() {
				_, _, errs[i] = s.UpdateProvider(t.Context(), id(1+i),
					Update{Name: fmt.Sprint("p", 1+i), Move: true, Parent: id(2 - i), Free: true})
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v and %v, want exactly one error", round, errs[0], errs[1])
		}
		for i := range 2 {
			_, _, err := s.UpdateProvider(t.Context(), id(1+i),
				Update{Name: fmt.Sprint("p", 1+i), Move: true, Free: true})
			ok(t, err)
		}
	}
}

func testDeleteProvider(t *testing.T, s *Store) {
	ctx := t.Context()
	empty := dump(t, s)
	host(t, s, 1, 0)
	host(t, s, 2, 1)
	_, _, err := s.ReplaceTraits(ctx, id(2), 1, []resource.Trait{"HW_NIC_SRIOV"})
	ok(t, err)
	ok(t, putOne(ctx, s, claim(500, 2, 1)))
	_, err = s.DeleteProvider(ctx, id(1))
	refused(t, err, fault.Conflict, codeParent, "1 children")
	_, err = s.DeleteProvider(ctx, id(2))
	refused(t, err, fault.Conflict, codeInUse, "in use")
	_, err = s.DeleteProvider(ctx, id(3))
	refused(t, err, fault.NotFound, "", string(id(3)))
	_, err = s.DeleteAllocations(ctx, consumer(500))
	ok(t, err)
	for _, n := range []int{2, 1} {
		change, err := s.DeleteProvider(ctx, id(n))
		ok(t, err)
		equal(t, "change", change, Change{Roots: []provider.ID{id(1)}})
	}
	equal(t, "rows left", diff(empty, dump(t, s)), []string{"+ consumer_types c id=1 name=INSTANCE",
		"+ projects c id=1 external_id=project", "+ users c id=1 external_id=user"})
}

func testInventories(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	odd := resource.Inventory{Total: 100, Reserved: 3, MinUnit: 2, MaxUnit: 50, StepSize: 2, AllocationRatio: 1.1}
	change, err := s.ReplaceInventories(ctx, id(1), 1, inventory{"VCPU": resource.Whole(4), "DISK_GB": odd})
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}, Generation: 2})
	all, err := s.Inventories(ctx, id(1))
	ok(t, err)
	equal(t, "classes", all.Classes, inventory{"VCPU": resource.Whole(4), "DISK_GB": odd})
	equal(t, "generation and times", []any{all.Generation, len(all.Modified), all.Modified["VCPU"].IsZero()},
		[]any{2, 2, false})

	_, err = s.ReplaceInventories(ctx, id(1), 1, nil)
	refused(t, err, fault.Conflict, codeConcurrent, "generation 2")
	_, err = s.ReplaceInventories(ctx, id(1), 2, inventory{"CUSTOM_NO": resource.Whole(1)})
	refused(t, err, fault.Invalid, "", "CUSTOM_NO")
	_, err = s.ReplaceInventories(ctx, id(9), 2, nil)
	refused(t, err, fault.NotFound, "", string(id(9)))

	ok(t, putOne(ctx, s, claim(500, 1, 4)))
	_, err = s.ReplaceInventories(ctx, id(1), 3, inventory{"DISK_GB": odd})
	refused(t, err, fault.Conflict, codeInventory, "VCPU")
	_, err = s.DeleteInventories(ctx, id(1))
	refused(t, err, fault.Conflict, codeInventory, "VCPU")
	_, err = s.DeleteInventory(ctx, id(1), "VCPU")
	refused(t, err, fault.Conflict, codeConcurrent, "VCPU")
	change, err = s.ReplaceInventories(ctx, id(1), 3, inventory{"VCPU": resource.Whole(2)}) // below its usage
	ok(t, err)
	equal(t, "generation", change.Generation, 4)

	change, err = s.AddInventory(ctx, id(1), "MEMORY_MB", resource.Whole(7))
	ok(t, err)
	equal(t, "generation", change.Generation, 5)
	_, err = s.AddInventory(ctx, id(1), "MEMORY_MB", resource.Whole(7))
	refused(t, err, fault.Conflict, codeConcurrent, "MEMORY_MB")
	_, err = s.AddInventory(ctx, id(1), "CUSTOM_NO", resource.Whole(7))
	refused(t, err, fault.Invalid, "", "CUSTOM_NO")
	change, err = s.UpdateInventory(ctx, id(1), 5, "MEMORY_MB", resource.Whole(8))
	ok(t, err)
	equal(t, "generation", change.Generation, 6)
	_, err = s.UpdateInventory(ctx, id(1), 5, "MEMORY_MB", resource.Whole(8))
	refused(t, err, fault.Conflict, codeConcurrent, "generation 6")
	_, err = s.UpdateInventory(ctx, id(1), 6, "DISK_GB", resource.Whole(8))
	refused(t, err, fault.Invalid, "", "DISK_GB")
	_, err = s.UpdateInventory(ctx, id(1), 6, "CUSTOM_NO", resource.Whole(8))
	refused(t, err, fault.NotFound, "", "CUSTOM_NO")
	change, err = s.DeleteInventory(ctx, id(1), "MEMORY_MB")
	ok(t, err)
	equal(t, "generation", change.Generation, 7)
	_, err = s.DeleteInventory(ctx, id(1), "MEMORY_MB")
	refused(t, err, fault.NotFound, "", "MEMORY_MB")
	_, err = s.DeleteAllocations(ctx, consumer(500))
	ok(t, err)
	_, err = s.DeleteInventories(ctx, id(1))
	ok(t, err)
	all, err = s.Inventories(ctx, id(1))
	ok(t, err)
	equal(t, "inventories left and generation", []int{len(all.Classes), all.Generation}, []int{0, 8})
}

func testAggregates(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	one := 1
	change, err := s.ReplaceAggregates(ctx, id(1), &one, []resource.AggregateID{aggregate(901), aggregate(900)})
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}, Generation: 2})
	_, err = s.ReplaceAggregates(ctx, id(1), &one, nil)
	refused(t, err, fault.Conflict, codeConcurrent, "generation 2")
	change, err = s.ReplaceAggregates(ctx, id(1), nil, []resource.AggregateID{aggregate(902), aggregate(900)})
	ok(t, err)
	equal(t, "generation without a generation in the request", change.Generation, 2)
	all, err := s.Aggregates(ctx, id(1))
	ok(t, err)
	equal(t, "aggregates", all,
		Aggregates{Generation: 2, Aggregates: []resource.AggregateID{aggregate(900), aggregate(902)}})
	_, err = s.Aggregates(ctx, id(2))
	refused(t, err, fault.NotFound, "", string(id(2)))
}
