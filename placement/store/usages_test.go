package store

import (
	"fmt"
	"testing"
)

func testUsages(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	a, b, c := claim(500, 1, 1), claim(501, 1, 2), claim(502, 1, 3)
	a.Allocation[id(1)]["MEMORY_MB"] = 7
	b.ConsumerType, c.User, c.ConsumerType = "", "user2", "MIGRATION"
	_, err := s.PutAllocations(ctx, a, b, c)
	ok(t, err)
	for _, u := range []struct {
		filter UsageFilter
		want   string
	}{
		{UsageFilter{Project: "project"}, "[{INSTANCE 1 MEMORY_MB:7,VCPU:1} {MIGRATION 1 VCPU:3} {unknown 1 VCPU:2}]"},
		{UsageFilter{Project: "project", ConsumerType: "all"}, "[{all 3 MEMORY_MB:7,VCPU:6}]"},
		{UsageFilter{Project: "project", ConsumerType: "unknown"}, "[{unknown 1 VCPU:2}]"},
		{UsageFilter{Project: "project", ConsumerType: "MIGRATION"}, "[{MIGRATION 1 VCPU:3}]"},
		{UsageFilter{Project: "project", User: "user", ConsumerType: "all"}, "[{all 2 MEMORY_MB:7,VCPU:3}]"},
		{UsageFilter{Project: "unknown", ConsumerType: "all"}, "[]"},
	} {
		list, err := s.Usages(ctx, u.filter)
		ok(t, err)
		equal(t, "usages", fmt.Sprint(list), u.want)
	}
}
