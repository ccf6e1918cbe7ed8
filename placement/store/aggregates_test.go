package store

import (
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
