package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestOtherLetters checks requests that name objects in other letters than MariaDB's tables have them. Its collations
// ignore case and spaces at the end. The original finds UUIDs in any letters, but classes and traits only in their own.
func TestOtherLetters(t *testing.T) {
	ctx, s := t.Context(), openStore(t, databases.SharedMariaDB(t).Database(t))
	const lower, upper = "abcdef00-0000-4000-8000-000000000001", "ABCDEF00-0000-4000-8000-000000000001"

	must(s.EnsureClass(ctx, "CUSTOM_A"))
	_, _, err := s.EnsureTrait(ctx, "CUSTOM_A")
	ok(t, err)
	for _, name := range []string{"custom_a", "CUSTOM_A "} {
		_, err = s.Class(ctx, resource.Class(name))
		refused(t, err, fault.NotFound, "", strings.TrimSpace(name))
		refused(t, s.DeleteClass(ctx, resource.Class(name)), fault.NotFound, "", strings.TrimSpace(name))
		_, err = s.RenameClass(ctx, resource.Class(name), "CUSTOM_B")
		refused(t, err, fault.NotFound, "", strings.TrimSpace(name))
		_, err = s.Trait(ctx, resource.Trait(name))
		refused(t, err, fault.NotFound, "", strings.TrimSpace(name))
		refused(t, s.DeleteTrait(ctx, resource.Trait(name)), fault.NotFound, "", strings.TrimSpace(name))
	}
	must(s.Class(ctx, "CUSTOM_A"))
	must(s.Trait(ctx, "CUSTOM_A"))

	_, _, err = s.CreateProvider(ctx, lower, "host", "")
	ok(t, err)
	_, err = s.ReplaceInventories(ctx, lower, 0, inventory{"VCPU": resource.Whole(10)})
	ok(t, err)
	_, err = s.ReplaceAggregates(ctx, lower, nil, []resource.AggregateID{lower})
	ok(t, err)
	for _, all := range [][]resource.AggregateID{{upper}, {lower, upper}} {
		_, err = s.ReplaceAggregates(ctx, lower, nil, all)
		ok(t, err)
		is, err := s.Aggregates(ctx, lower)
		ok(t, err)
		equal(t, "aggregates", is.Aggregates, []resource.AggregateID{lower})
	}
	for aggregate, want := range map[resource.AggregateID]int{lower: 1, upper: 0} {
		members, err := s.Providers(ctx, Filter{MemberOf: [][]resource.AggregateID{{aggregate}}})
		ok(t, err)
		others, err := s.Providers(ctx, Filter{NotMemberOf: []resource.AggregateID{aggregate}})
		ok(t, err)
		equal(t, "members of "+string(aggregate), []int{len(members), len(others)}, []int{want, 1 - want})
	}

	c := Claim{Consumer: lower, Allocation: resource.Allocation{upper: {"VCPU": 2}}, Guarded: true, Project: "p",
		User: "u"}
	change, err := s.PutAllocations(ctx, c)
	ok(t, err)
	equal(t, "changed trees", change.Roots, []provider.ID{lower})
	p, err := s.Provider(ctx, lower)
	ok(t, err)
	equal(t, "generation after a claim", p.Generation, 2)
	_, err = s.Reshape(ctx, map[provider.ID]NewInventories{upper: {2, inventory{"VCPU": resource.Whole(12)}}}, nil)
	ok(t, err)
	_, err = s.DeleteAllocations(ctx, upper)
	ok(t, err)
	used, err := s.ProviderUsages(ctx, lower)
	ok(t, err)
	equal(t, "usage", used.Used, resource.Amounts{"VCPU": 0})

	c.Allocation = resource.Allocation{lower: {"VCPU": 1}}
	other := Claim{Consumer: consumer(501), Allocation: resource.Allocation{lower: {"VCPU": 2}}, Guarded: true,
		Project: "p", User: "u", ConsumerType: "UNKNOWN"}
	_, err = s.PutAllocations(ctx, c, other)
	ok(t, err)
	types, err := s.Usages(ctx, UsageFilter{Project: "p"})
	ok(t, err)
	equal(t, "usages by type", fmt.Sprint(types), "[{UNKNOWN 1 VCPU:2} {unknown 1 VCPU:1}]")
}
