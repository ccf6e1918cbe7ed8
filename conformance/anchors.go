package conformance

import (
	"net/url"
	"slices"
	"strings"
)

// The original loses candidates where providers that share through aggregates can meet the unsuffixed group alone, and
// there is another group: of equal answers to the unsuffixed group for several trees it keeps that of one tree, and
// joins the other groups to this one only. Which tree, its hash table decides. So of such queries Berth may name more:
// candidates whose unsuffixed group lies on sharing providers only.

// sharing is the providers of an answer that share.
func sharing(answer map[string]any) map[string]bool {
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

// mayBeLost says whether the original may have lost a candidate: the unsuffixed group lies on sharing providers only.
// Before 1.34 candidates do not say where it lies; then one sharing provider is enough.
func mayBeLost(candidate any, shares map[string]bool) bool {
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

// mixed says whether a query has an unsuffixed group and another one.
func mixed(target string) bool {
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

// withoutLost is Berth's candidates without those that the original may have lost, which are few fewer.
func withoutLost(target string, answer map[string]any, few, many []any) []any {
	if !mixed(target) {
		return many
	}
	shares, counts := sharing(answer), map[string]int{}
	for _, v := range few {
		counts[inJSON(v)]++
	}
	return slices.DeleteFunc(slices.Clone(many), func(v any) bool {
		counts[inJSON(v)]--
		return counts[inJSON(v)] < 0 && mayBeLost(v, shares)
	})
}
