package store

import (
	"maps"
	"slices"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// allRows returns a copy of all rows, by root.
func allRows(t *testing.T, s *Store) (all []Row) {
	t.Helper()
	ok(t, s.Trees(t.Context(), func(root provider.ID, rows []Row) {
		for _, r := range rows {
			if r.Root != root {
				t.Errorf("a row of root %s is in tree %s", r.Root, root)
			}
			r.Inventories, r.Used = maps.Clone(r.Inventories), maps.Clone(r.Used)
			r.Traits, r.Aggregates = slices.Clone(r.Traits), slices.Clone(r.Aggregates)
			all = append(all, r)
		}
	}))
	return all
}

func testRows(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	host(t, s, 2, 1)
	host(t, s, 3, 0)
	_, _, err := s.ReplaceTraits(ctx, id(2), 1, []resource.Trait{"HW_NIC_SRIOV", "COMPUTE_NODE"})
	ok(t, err)
	_, err = s.ReplaceAggregates(ctx, id(3), nil, []resource.AggregateID{aggregate(901), aggregate(900)})
	ok(t, err)
	_, err = s.PutAllocations(ctx, claim(500, 2, 1), claim(501, 2, 2))
	ok(t, err)
	plenty := inventory{"VCPU": resource.Whole(10), "MEMORY_MB": resource.Whole(100)}
	want := []Row{
		{Provider: provider.Provider{ID: id(1), Name: "p1", Root: id(1), Generation: 1, Inventories: plenty}},
		{
			Provider: provider.Provider{
				ID:          id(2),
				Name:        "p2",
				Parent:      id(1),
				Root:        id(1),
				Generation:  3,
				Inventories: plenty,
				Traits:      []resource.Trait{"COMPUTE_NODE", "HW_NIC_SRIOV"},
			},
			Used: resource.Amounts{"VCPU": 3},
		},
		{Provider: provider.Provider{ID: id(3), Name: "p3", Root: id(3), Generation: 1, Inventories: plenty,
			Aggregates: []resource.AggregateID{aggregate(900), aggregate(901)}}},
	}
	equal(t, "rows", allRows(t, s), want)
	for root, part := range map[int][]Row{1: want[:2], 3: want[2:], 2: nil, 9: nil} {
		rows, err := s.TreeRows(ctx, id(root))
		ok(t, err)
		equal(t, "tree", rows, part)
	}
}
