package schedule

import (
	"strings"
	"testing"
)

// The metadata of the aggregates of a host decides which servers it may have; each refusal names aggregate and key.
func TestAggregateFilters(t *testing.T) {
	of := Aggregates{DefaultZone: "nova", OfHost: map[string][]Aggregate{
		"gold": {{Name: "fast", Metadata: map[string]string{"ssd": "true", "cores": "64"}},
			{Name: "north", Metadata: map[string]string{ZoneKey: "z1"}}},
		"own": {{Name: "ours", Metadata: map[string]string{"filter_tenant_id": "p1, p2"}}},
		"two": {{Name: "ours", Metadata: map[string]string{"filter_tenant_id2": "p3"}},
			{Name: "both", Metadata: map[string]string{"filter_tenant_id": "p1", "ssd": "false, 7"}}},
	}}
	for _, c := range []struct {
		name, host string
		demand     AggregateDemand
		filter     Filter
		says       string
	}{
		{"nothing", "gold", AggregateDemand{}, "", ""},
		{"a zone", "gold", AggregateDemand{Zone: "z1"}, "", ""},
		{"the default zone", "own", AggregateDemand{Zone: "nova"}, "", ""},
		{"another zone", "gold", AggregateDemand{Zone: "nova"}, FilterZone,
			"zone nova is requested, and the host is in zone z1"},
		{"an own host", "own", AggregateDemand{Project: "p2"}, "", ""},
		{"one of two aggregates", "two", AggregateDemand{Project: "p1"}, "", ""},
		{"the host of others", "own", AggregateDemand{Project: "p9"}, FilterTenants,
			"aggregate ours is reserved for other projects by its metadata filter_tenant_id"},
		{"a host without aggregates", "none", AggregateDemand{Project: "p9"}, "", ""},
		{"an extra spec", "gold", AggregateDemand{ExtraSpecs: map[string]string{AggregateSpecs + "ssd": "true"}}, "", ""},
		{"another value", "two", AggregateDemand{ExtraSpecs: map[string]string{AggregateSpecs + "ssd": "true"}},
			FilterExtraSpecs, "ssd=true, and aggregate both has ssd=false, 7"},
		{"no key", "own", AggregateDemand{ExtraSpecs: map[string]string{AggregateSpecs + "ssd": "true"}}, FilterExtraSpecs,
			"no aggregate of the host has ssd"},
		{"other extra specs", "own", AggregateDemand{ExtraSpecs: map[string]string{"ssd": "true"}}, "", ""},
	} {
		c.demand.Aggregates = of
		got := c.demand.refuse(c.host)
		if got.Filter != c.filter || !strings.Contains(got.Reason, c.says) || (got.Reason == "") != (c.filter == "") {
			t.Errorf("%s: %+v, want %s %s", c.name, got, c.filter, c.says)
		}
	}
}

// The operators of extra specs are Nova's.
func TestExtraSpecOperators(t *testing.T) {
	for _, c := range []struct {
		value, wanted string
		fits          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"8", "= 4", true}, {"2", "= 4", false}, {"4.0", "== 4", true},
		{"5", "!= 4", true}, {"4", "!= 4", false}, {"4", ">= 4", true}, {"5", "<= 4", false}, {"x", ">= 4", false},
		{"b", "s== b", true}, {"b", "s!= b", false}, {"b", "s> a", true}, {"b", "s< a", false}, {"b", "s>= b", true},
		{"abc", "<in> b", true}, {"abc", "<in> x", false}, {"a b", "<all-in> a b", true}, {"a b", "<all-in> a c", false},
		{"b", "<or> a <or> b", true}, {"c", "<or> a <or> b", false}, {"", "", true}, {"> 4", "> 4", true},
		{"5", "> 4", false},
		{"4", "==", false}, {"s= a", "s= a", true},
	} {
		if got := matches(c.value, c.wanted); got != c.fits {
			t.Errorf("%q %q: %t", c.value, c.wanted, got)
		}
	}
}
