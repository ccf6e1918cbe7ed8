package store

import (
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func traitNames(list []Trait) (all []resource.Trait) {
	for _, t := range list {
		all = append(all, t.Name)
	}
	return all
}

func testTraits(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	for _, want := range []bool{true, false} {
		made, created, err := s.EnsureTrait(ctx, "CUSTOM_B")
		ok(t, err)
		equal(t, "created", []any{made.Name, created}, []any{"CUSTOM_B", want})
	}
	_, _, err := s.EnsureTrait(ctx, "CUSTOM_A_100%")
	ok(t, err)
	now, change, err := s.ReplaceTraits(ctx, id(1), 1, []resource.Trait{"HW_NIC_SRIOV", "CUSTOM_B"})
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}, Generation: 2})
	equal(t, "traits", traitNames(now.Traits), "[HW_NIC_SRIOV CUSTOM_B]")
	_, change, err = s.ReplaceTraits(ctx, id(1), 2, []resource.Trait{"CUSTOM_B", "HW_NIC_SRIOV"})
	ok(t, err)
	equal(t, "generation without a change", change.Generation, 2)
	_, _, err = s.ReplaceTraits(ctx, id(1), 1, nil)
	refused(t, err, fault.Conflict, codeConcurrent, "generation 2")
	_, _, err = s.ReplaceTraits(ctx, id(1), 2, []resource.Trait{"CUSTOM_NO", "CUSTOM_B"})
	refused(t, err, fault.Invalid, "", "no trait CUSTOM_NO")
	refused(t, s.DeleteTrait(ctx, "CUSTOM_B"), fault.Conflict, "", "in use")
	refused(t, s.DeleteTrait(ctx, "HW_NIC_SRIOV"), fault.Invalid, "", "standard")
	refused(t, s.DeleteTrait(ctx, "CUSTOM_NO"), fault.NotFound, "", "CUSTOM_NO")
	_, err = s.Trait(ctx, "CUSTOM_NO")
	refused(t, err, fault.NotFound, "", "CUSTOM_NO")

	yes, no, small := true, false, "[CUSTOM_B CUSTOM_A_100%]"
	if s.db.Dialect == sqldb.PostgreSQL {
		small = "[]"
	}
	for _, c := range []struct {
		filter TraitFilter
		want   string
	}{
		{TraitFilter{Prefix: "CUSTOM_"}, "[CUSTOM_B CUSTOM_A_100%]"},
		{TraitFilter{Prefix: "CUSTOM__"}, "[CUSTOM_B CUSTOM_A_100%]"}, // a pattern as in LIKE
		{TraitFilter{Prefix: "custom"}, small},
		{TraitFilter{Prefix: "CUSTOM_%%0_"}, "[CUSTOM_A_100%]"},
		{TraitFilter{Prefix: "CUSTOM_%1%1"}, "[]"},
		{TraitFilter{Prefix: "CUSTOM_B_"}, "[]"},
		{TraitFilter{Prefix: "CUSTOM_", Associated: &no}, "[CUSTOM_A_100%]"},
		{TraitFilter{Associated: &yes}, "[HW_NIC_SRIOV CUSTOM_B]"},
		{TraitFilter{In: []resource.Trait{"HW_NIC_SRIOV", "CUSTOM_NO"}}, "[HW_NIC_SRIOV]"},
		{TraitFilter{In: []resource.Trait{}}, "[]"},
	} {
		list, err := s.Traits(ctx, c.filter)
		ok(t, err)
		equal(t, "filter", traitNames(list), c.want)
	}

	for _, want := range []int{3, 3} {
		change, err = s.ClearTraits(ctx, id(1))
		ok(t, err)
		equal(t, "generation", change.Generation, want)
	}
	ok(t, s.DeleteTrait(ctx, "CUSTOM_B"))
	all, err := s.ProviderTraits(ctx, id(1))
	ok(t, err)
	equal(t, "traits", []int{len(all.Traits), all.Generation}, []int{0, 3})
}

func testClasses(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	ok(t, s.CreateClass(ctx, "CUSTOM_A"))
	refused(t, s.CreateClass(ctx, "CUSTOM_A"), fault.Conflict, "", "CUSTOM_A")
	for _, want := range []bool{true, false} {
		created, err := s.EnsureClass(ctx, "CUSTOM_B")
		ok(t, err)
		equal(t, "created", created, want)
	}
	if rows := dump(t, s); !rows["resource_classes c id=10000 name=CUSTOM_A"] ||
		!rows["resource_classes c id=10001 name=CUSTOM_B"] {
		t.Error("the ids of custom classes do not begin at 10000")
	}
	_, err := s.AddInventory(ctx, id(1), "CUSTOM_B", resource.Whole(1))
	ok(t, err)
	refused(t, s.DeleteClass(ctx, "CUSTOM_B"), fault.Conflict, "", "in use")
	refused(t, s.DeleteClass(ctx, "VCPU"), fault.Invalid, "", "standard")
	refused(t, s.DeleteClass(ctx, "CUSTOM_NO"), fault.NotFound, "", "CUSTOM_NO")
	_, err = s.RenameClass(ctx, "CUSTOM_B", "CUSTOM_A")
	refused(t, err, fault.Conflict, "", "CUSTOM_A")
	_, err = s.RenameClass(ctx, "VCPU", "CUSTOM_C")
	refused(t, err, fault.Invalid, "", "standard")
	change, err := s.RenameClass(ctx, "CUSTOM_B", "CUSTOM_C")
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}})
	all, err := s.Inventories(ctx, id(1))
	ok(t, err)
	equal(t, "renamed", all.Classes["CUSTOM_C"], resource.Whole(1))
	ok(t, s.DeleteClass(ctx, "CUSTOM_A"))
	_, err = s.Class(ctx, "CUSTOM_A")
	refused(t, err, fault.NotFound, "", "CUSTOM_A")
	c, err := s.Class(ctx, "CUSTOM_C")
	ok(t, err)
	if c.Modified.IsZero() {
		t.Error("no modification time")
	}
}

// testClassRace deletes a class while an inventory of it is being added, with either transaction first. One of the two
// is refused.
func testClassRace(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	add := func(tx *sqldb.Tx) error {
		p, err := findProvider(ctx, tx, id(1))
		if err == nil {
			var numbers map[resource.Class]int64
			if numbers, err = classNumbers(ctx, tx, []resource.Class{"CUSTOM_RACE"}); err == nil {
				err = insert(ctx, tx, "inventories", inventoryColumns,
					[][]any{s.inventoryRow(p, numbers["CUSTOM_RACE"], resource.Whole(1))})
			}
			if err == nil {
				err = lockClasses(ctx, tx, numbers["CUSTOM_RACE"])
			}
		}
		return err
	}
	drop := func(tx *sqldb.Tx) error { _, err := deleteClass(ctx, tx, "CUSTOM_RACE"); return err }
	for i, c := range []struct{ first, second func(*sqldb.Tx) error }{{add, drop}, {drop, add}} {
		must(s.EnsureClass(ctx, "CUSTOM_RACE"))
		begun, ended, results := make(chan bool, 9), make(chan bool), make(chan error, 2)
		go func() {
			results <- s.write(ctx, "first", func(tx *sqldb.Tx) error {
				err := c.first(tx)
				begun <- true
				select { // the second transaction has ended, or waits for this one
				case <-ended:
				case <-time.After(200 * time.Millisecond):
				}
				return err
			})
		}()
		<-begun
		err := s.write(ctx, "second", c.second)
		close(ended)
		if other := <-results; (err == nil) == (other == nil) {
			t.Errorf("%d: first %v, second %v; want exactly one error", i, other, err)
		}
		orphans := 0
		ok(t, s.read(ctx, "orphans", func(tx *sqldb.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM inventories WHERE resource_class_id NOT IN (SELECT id "+
				"FROM resource_classes)").
				Scan(&orphans)
		}))
		equal(t, "inventories without a class", orphans, 0)
		_, err = s.DeleteInventory(ctx, id(1), "CUSTOM_RACE")
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
		if err := s.DeleteClass(ctx, "CUSTOM_RACE"); err != nil && !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	}
}

// testTraitRace deletes a trait while it is added to a provider. One of the two is refused, as if one had run after the
// other.
func testTraitRace(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	const trait = resource.Trait("CUSTOM_RACE")
	for range 40 {
		_, _, err := s.EnsureTrait(ctx, trait)
		ok(t, err)
		p, err := s.Provider(ctx, id(1))
		ok(t, err)
		dropped := make(chan error, 1)
		go func() { dropped <- s.DeleteTrait(ctx, trait) }()
		_, _, given := s.ReplaceTraits(ctx, id(1), p.Generation, []resource.Trait{trait})
		gone := <-dropped
		if given == nil && !fault.Is(gone, fault.Conflict) ||
			given != nil && (gone != nil || !fault.Is(given, fault.Invalid)) {
			t.Fatalf("deletion: %v; addition to a provider: %v", gone, given)
		}
		_, err = s.ClearTraits(ctx, id(1))
		ok(t, err)
	}
}
