package candidatetest

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// KeyOf writes an allocation and mappings so that equal candidates have equal keys.
func KeyOf(allocation resource.Allocation, mappings map[string][]provider.ID) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(allocation)) {
		fmt.Fprintf(&b, "%s{%s} ", id, allocation[id])
	}
	for _, suffix := range slices.Sorted(maps.Keys(mappings)) {
		fmt.Fprintf(&b, "[%s: %v] ", suffix, slices.Sorted(slices.Values(mappings[suffix])))
	}
	return b.String()
}

// Key returns the key of a candidate.
func Key(c candidate.Candidate) string { return KeyOf(c.Allocation(), c.Mappings()) }

// Keys returns the keys of candidates in their order.
func Keys(candidates iter.Seq[candidate.Candidate]) []string {
	var out []string
	for c := range candidates {
		out = append(out, Key(c))
	}
	return out
}
