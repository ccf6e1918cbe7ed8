package store

import (
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// testOverCapacity changes allocations on a provider whose capacity became smaller than its use. A write is refused
// only if a class is used more than before and above the capacity.
func testOverCapacity(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	host(t, s, 2, 0)
	first, second := claim(500, 1, 6), claim(501, 1, 4)
	ok(t, putOne(ctx, s, first))
	ok(t, putOne(ctx, s, second))
	shrunk := resource.Whole(10)
	shrunk.Reserved, shrunk.MaxUnit, shrunk.StepSize = 7, 6, 2
	_, err := s.ReplaceInventories(ctx, id(1), 3, inventory{"VCPU": shrunk, "MEMORY_MB": resource.Whole(100)})
	ok(t, err)

	before := dump(t, s)
	refused(t, putOne(ctx, s, claim(502, 1, 2)), fault.Conflict, "", "asks 2, 0 of 3 free (7 reserved)")
	refused(t, putOne(ctx, s, claim(501, 1, 6).seen(1)), fault.Conflict, "", "asks 6, 0 of 3 free (7 reserved)")
	refused(t, putOne(ctx, s, claim(500, 1, 8).seen(1)), fault.Conflict, "", "largest share is 6")
	refused(t, putOne(ctx, s, claim(500, 1, 3).seen(1)), fault.Conflict, "", "steps of 2")
	_, err = s.PutAllocations(ctx, claim(500, 1, 2).seen(1), claim(501, 1, 4).seen(1), claim(502, 1, 6))
	refused(t, err, fault.Conflict, "", "asks 6, 0 of 3 free (7 reserved)")
	_, err = s.PutAllocations(ctx, claim(500, 2, 6).seen(1), claim(502, 2, 6))
	refused(t, err, fault.Conflict, "", "asks 6, 4 of 10 free") // not over its capacity: as before
	equal(t, "changes by refused writes", diff(before, dump(t, s)), []string(nil))

	ok(t, putOne(ctx, s, claim(500, 1, 6).seen(1))) // the same again
	beside := claim(500, 1, 6).seen(2)
	beside.Allocation[id(1)]["MEMORY_MB"] = 8
	ok(t, putOne(ctx, s, beside))
	empty := claim(500, 1, 1).seen(3)
	empty.Allocation = nil
	_, err = s.PutAllocations(ctx, empty, claim(503, 1, 6)) // to the consumer of a migration, and back
	ok(t, err)
	empty = claim(503, 1, 1).seen(1)
	empty.Allocation = nil
	_, err = s.PutAllocations(ctx, empty, claim(500, 1, 6))
	ok(t, err)
	_, err = s.PutAllocations(ctx, claim(500, 1, 4).seen(1), claim(501, 1, 6).seen(1)) // net zero
	ok(t, err)
	shrunk.Reserved = 10
	_, err = s.Reshape(ctx, map[provider.ID]NewInventories{id(1): {generation(t, s, 1), inventory{"VCPU": shrunk}}},
		[]Claim{claim(500, 1, 4).seen(2), claim(501, 1, 4).seen(2)})
	ok(t, err)
	ok(t, putOne(ctx, s, claim(501, 1, 2).seen(3))) // a smaller one
	uses, err := s.Uses(ctx, id(1))
	ok(t, err)
	equal(t, "uses", uses, map[provider.ID]resource.Amounts{id(1): {"VCPU": 6}})
	refused(t, putOne(ctx, s, claim(501, 1, 4).seen(4)), fault.Conflict, "", "asks 4, 0 of 0 free (10 reserved)")
}
