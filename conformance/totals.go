package conformance

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The original adds up amounts in the wrong place where the unsuffixed group and a suffixed one ask for the same class:
// answering 1 + 1 VCPU it names candidates of 2 + 1 (its merge changes a resource that other candidates share), and
// leaves out those whose wrong sum exceeds a capacity. The rule sums of exceptions.txt is for that: of such a query,
// all of the original's candidates must be among Berth's, amounts apart, and Berth's amounts must add up to what was
// asked.

// overlaps says whether the unsuffixed group and a suffixed one ask for the same class.
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

// totals says what a candidates query asks for in all, by class; nil if that cannot be read.
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
			group[class] = amount // named twice, the last counts
		}
		for class, amount := range group {
			sums[class] += amount
		}
	}
	return sums
}

// eachResources visits the resources of every provider of every candidate.
func eachResources(document any, visit func(candidate int, resources map[string]any)) {
	top, _ := document.(map[string]any)
	list, _ := top["allocation_requests"].([]any)
	for i, request := range list {
		m, _ := request.(map[string]any)
		var parts []any
		switch a := m["allocations"].(type) {
		case []any: // before 1.12
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

// addsUp says whether every candidate is of what was asked.
func addsUp(asked map[string]int64, document any) bool {
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
		if fmt.Sprint(sum) != fmt.Sprint(asked) {
			return false
		}
	}
	return true
}

// withoutAmounts takes the amounts out of all candidates.
func withoutAmounts(document any) {
	eachResources(document, func(_ int, resources map[string]any) {
		for class := range resources {
			resources[class] = "(amount)"
		}
	})
}

// mend takes what the original gets wrong out of the answers to a query for candidates: see above and anchors.go. It
// returns what is wrong with Berth's then.
func (r Rules) mend(ask Ask, theirs Answer, want, got any) (diffs []string) {
	if r.how(ask, theirs, "body.allocation_requests") != sums {
		return nil
	}
	w, _ := want.(map[string]any)
	g, _ := got.(map[string]any)
	if w["allocation_requests"] == nil || g["allocation_requests"] == nil {
		return nil
	}
	if overlaps(ask.Target) {
		if asked := totals(ask.Target); asked != nil && !addsUp(asked, got) {
			diffs = append(diffs, fmt.Sprintf("body.allocation_requests: amounts do not add up to %v", asked))
		}
		withoutAmounts(want)
		withoutAmounts(got)
	}
	few, _ := Rules(nil).tidy(ask, theirs, "", w["allocation_requests"]).([]any)
	many, _ := Rules(nil).tidy(ask, theirs, "", g["allocation_requests"]).([]any)
	if overlaps(ask.Target) {
		g["allocation_requests"] = common(few, many)
	} else if anchored := withoutLost(ask.Target, g, few, many); len(anchored) < len(many) {
		g["allocation_requests"] = anchored
	} else {
		return diffs
	}
	fewer, _ := w["provider_summaries"].(map[string]any)
	summaries, _ := g["provider_summaries"].(map[string]any)
	for id := range summaries {
		if _, ok := fewer[id]; !ok {
			delete(summaries, id)
		}
	}
	return diffs
}

// common is what of many is in few, at most as often.
func common(few, many []any) []any {
	counts := map[string]int{}
	for _, v := range few {
		counts[inJSON(v)]++
	}
	return slices.DeleteFunc(many, func(v any) bool {
		counts[inJSON(v)]--
		return counts[inJSON(v)] < 0
	})
}
