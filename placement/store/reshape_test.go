package store

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func testReshape(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	host(t, s, 2, 1)
	host(t, s, 3, 1)
	ok(t, putOne(ctx, s, claim(500, 1, 4)))
	ok(t, putOne(ctx, s, claim(501, 1, 6)))
	toChildren := []Claim{claim(500, 2, 4).seen(1), claim(501, 3, 6).seen(1)}
	all := map[provider.ID]NewInventories{
		id(1): {2, inventory{"MEMORY_MB": resource.Whole(9)}},
		id(2): {1, inventory{"VCPU": resource.Whole(4)}},
	}

	before := dump(t, s)
	_, err := s.Reshape(ctx, all, toChildren)
	refused(t, err, fault.Conflict, codeConcurrent, "generation 3 now, not 2")
	all[id(1)] = NewInventories{3, all[id(1)].Classes}
	_, err = s.Reshape(ctx, all, toChildren[:1])
	refused(t, err, fault.Conflict, codeInventory, "VCPU")
	_, err = s.Reshape(ctx, all, []Claim{claim(500, 2, 4).seen(1), claim(501, 2, 6).seen(1)})
	refused(t, err, fault.Conflict, "", "largest share is 4")
	_, err = s.Reshape(ctx, map[provider.ID]NewInventories{id(9): {}}, nil)
	refused(t, err, fault.Invalid, codeNoProvider, string(id(9)))
	_, err = s.Reshape(ctx, map[provider.ID]NewInventories{id(1): {3, inventory{"CUSTOM_NO": resource.Whole(9)}}}, nil)
	refused(t, err, fault.Invalid, "", "CUSTOM_NO")
	_, err = s.Reshape(ctx, all, []Claim{claim(500, 9, 4).seen(1)})
	refused(t, err, fault.Invalid, "", string(id(9)))
	_, err = s.Reshape(ctx, all, []Claim{claim(500, 2, 4)})
	refused(t, err, fault.Conflict, codeConcurrent, "not null")
	equal(t, "changes by refused writes", diff(before, dump(t, s)), []string(nil))

	change, err := s.Reshape(ctx, all, toChildren)
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}})
	// Provider 1 has new inventories and the final raise, provider 2 also a claim, provider 3 only a claim.
	equal(t, "generations", []int{generation(t, s, 1), generation(t, s, 2), generation(t, s, 3)}, []int{5, 4, 2})
	rows, err := s.TreeRows(ctx, id(1))
	ok(t, err)
	for _, r := range rows {
		want := map[provider.ID]string{id(1): "map[]", id(2): "VCPU:4", id(3): "VCPU:6"}[r.ID]
		if got := r.Used.String(); got != strings.TrimPrefix(want, "map[]") {
			t.Errorf("%s uses %s, want %s", r.Name, got, want)
		}
	}
	equal(t, "inventory of the root", must(s.Inventories(ctx, id(1))).Classes,
		inventory{"MEMORY_MB": resource.Whole(9)})
	_, err = s.Reshape(ctx, map[provider.ID]NewInventories{id(1): {5, nil}}, nil)
	ok(t, err)
	equal(t, "generation", generation(t, s, 1), 6)
}
