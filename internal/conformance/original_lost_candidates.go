package conformance

import (
	"net/url"
	"slices"
	"strings"
)

// The original loses candidates if sharing providers alone can serve the unsuffixed group and there is another group.
// If several trees have the same solution for the unsuffixed group, it keeps the solution of one tree, chosen by the
// order of a hash table, and combines the other groups only with this tree. So Berth may return more candidates for
// such a query: those whose unsuffixed group uses only sharing providers.

// sharingProviders returns the sharing providers in the summaries of an answer.
func sharingProviders(answer map[string]any) map[string]bool {
	found := map[string]bool{}
	summaries, _ := answer["provider_summaries"].(map[string]any)
	for id, v := range summaries {
		summary, _ := v.(map[string]any)
		traits, _ := summary["traits"].([]any)
		if slices.Contains(traits, any("MISC_SHARES_VIA_AGGREGATE")) {
			found[id] = true
		}
	}
	return found
}

// mayBeMissing reports whether the original may have lost a candidate: its unsuffixed group uses only sharing
// providers. Before microversion 1.34 a candidate has no mappings; then one sharing provider is enough.
func mayBeMissing(candidate any, shares map[string]bool) bool {
	c, _ := candidate.(map[string]any)
	if mappings, ok := c["mappings"].(map[string]any); ok {
		plain, _ := mappings[""].([]any)
		for _, id := range plain {
			if name, _ := id.(string); !shares[name] {
				return false
			}
		}
		return len(plain) > 0
	}
	allocations, _ := c["allocations"].(map[string]any)
	for id := range allocations {
		if shares[id] {
			return true
		}
	}
	return false
}

// hasSeveralGroups reports whether a query has an unsuffixed group and another one.
func hasSeveralGroups(target string) bool {
	_, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil || !values.Has("resources") {
		return false
	}
	for key := range values {
		if strings.HasPrefix(key, "resources") && key != "resources" {
			return true
		}
	}
	return false
}

// withoutMissing returns Berth's candidates, many, without those that the original may have lost: they are not in the
// original's candidates, few.
func withoutMissing(target string, answer map[string]any, few, many []any) []any {
	if !hasSeveralGroups(target) {
		return many
	}
	shares, counts := sharingProviders(answer), map[string]int{}
	for _, v := range few {
		counts[toJSON(v)]++
	}
	return slices.DeleteFunc(slices.Clone(many), func(v any) bool {
		counts[toJSON(v)]--
		return counts[toJSON(v)] < 0 && mayBeMissing(v, shares)
	})
}
