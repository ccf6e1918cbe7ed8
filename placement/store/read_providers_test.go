package store

import (
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

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
