package store

import (
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
