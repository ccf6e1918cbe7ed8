package store

import (
	"fmt"
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
