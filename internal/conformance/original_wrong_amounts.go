package conformance

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The original adds amounts to the wrong candidate if the unsuffixed group and a suffixed one request the same class.
// For 1 + 1 VCPU it returns candidates of 2 + 1, because its merge changes a resource that other candidates share, and
// it omits candidates whose wrong sum exceeds a capacity. The mode sums in comparison_exceptions.txt is for such
// queries: Berth must return all of the original's candidates, apart from amounts, and Berth's amounts must add up to
// the requested ones.

// overlaps reports whether the unsuffixed group and a suffixed one request the same class.
func overlaps(target string) bool {
	_, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return false
	}
	classes := func(list []string) map[string]bool {
		names := map[string]bool{}
		for part := range strings.SplitSeq(strings.Join(list, ","), ",") {
			class, _, _ := strings.Cut(part, ":")
			names[class] = true
		}
		return names
	}
	plain := classes(values["resources"])
	for key, list := range values {
		if !strings.HasPrefix(key, "resources") || key == "resources" {
			continue
		}
		for class := range classes(list) {
			if class != "" && plain[class] {
				return true
			}
		}
	}
	return false
}

// totals returns the total amounts that a query for candidates requests, by class; nil if they are not numbers.
func totals(target string) map[string]int64 {
	_, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	sums := map[string]int64{}
	for key, list := range values {
		if !strings.HasPrefix(key, "resources") {
			continue
		}
		group := map[string]int64{}
		for part := range strings.SplitSeq(list[len(list)-1], ",") {
			class, text, _ := strings.Cut(part, ":")
			amount, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil
			}
			group[class] = amount // of a repeated class, the last amount counts
		}
		for class, amount := range group {
			sums[class] += amount
		}
	}
	return sums
}

// eachResources calls visit with the resources of every provider of every candidate.
func eachResources(document any, visit func(candidate int, resources map[string]any)) {
	top, _ := document.(map[string]any)
	list, _ := top["allocation_requests"].([]any)
	for i, request := range list {
		m, _ := request.(map[string]any)
		var parts []any
		switch a := m["allocations"].(type) {
		case []any: // before microversion 1.12
			parts = a
		case map[string]any:
			for _, part := range a {
				parts = append(parts, part)
			}
		}
		for _, part := range parts {
			p, _ := part.(map[string]any)
			if resources, ok := p["resources"].(map[string]any); ok {
				visit(i, resources)
			}
		}
	}
}

// matchesTotals reports whether the amounts of every candidate add up to the requested ones.
func matchesTotals(requested map[string]int64, document any) bool {
	sums := map[int]map[string]int64{}
	eachResources(document, func(i int, resources map[string]any) {
		if sums[i] == nil {
			sums[i] = map[string]int64{}
		}
		for class, v := range resources {
			if n, ok := v.(json.Number); ok {
				amount, _ := n.Int64()
				sums[i][class] += amount
			}
		}
	})
	for _, sum := range sums {
		if fmt.Sprint(sum) != fmt.Sprint(requested) {
			return false
		}
	}
	return true
}

// withoutAmounts removes the amounts from all candidates.
func withoutAmounts(document any) {
	eachResources(document, func(_ int, resources map[string]any) {
		for class := range resources {
			resources[class] = "(amount)"
		}
	})
}

// correctOriginal removes the effects of the original's two defects from the answers to a query for candidates: wrong
// amounts (see above) and missing candidates (original_lost_candidates.go). It returns the mistakes in Berth's amounts.
func (r Rules) correctOriginal(ask Request, theirs Answer, want, got any) (diffs []string) {
	if r.modeOf(ask, theirs, "body.allocation_requests") != sums {
		return nil
	}
	w, _ := want.(map[string]any)
	g, _ := got.(map[string]any)
	if w["allocation_requests"] == nil || g["allocation_requests"] == nil {
		return nil
	}
	if overlaps(ask.Target) {
		if requested := totals(ask.Target); requested != nil && !matchesTotals(requested, got) {
			diffs = append(diffs, fmt.Sprintf("body.allocation_requests: the amounts of a candidate do not add up to %v",
				requested))
		}
		withoutAmounts(want)
		withoutAmounts(got)
	}
	few, _ := Rules(nil).canonical(ask, theirs, "", w["allocation_requests"]).([]any)
	many, _ := Rules(nil).canonical(ask, theirs, "", g["allocation_requests"]).([]any)
	if overlaps(ask.Target) {
		g["allocation_requests"] = common(few, many)
	} else if remaining := withoutMissing(ask.Target, g, few, many); len(remaining) < len(many) {
		g["allocation_requests"] = remaining
	} else {
		return diffs
	}
	wanted, _ := w["provider_summaries"].(map[string]any)
	summaries, _ := g["provider_summaries"].(map[string]any)
	for id := range summaries {
		if _, ok := wanted[id]; !ok {
			delete(summaries, id)
		}
	}
	return diffs
}

// common returns the items of many that are in few, each at most as often.
func common(few, many []any) []any {
	counts := map[string]int{}
	for _, v := range few {
		counts[toJSON(v)]++
	}
	return slices.DeleteFunc(many, func(v any) bool {
		counts[toJSON(v)]--
		return counts[toJSON(v)] < 0
	})
}
