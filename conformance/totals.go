package conformance

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// The original adds up amounts in the wrong place where two groups of one request may lie on the same provider: answering 1 + 1 VCPU it
// names candidates of 2 + 1 (its merge changes a resource that other candidates share). The rule sums of exceptions.txt is for
// that: where the original's amounts do not add up to what was asked, amounts are left out of the comparison, and Berth's must add up.

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
		for part := range strings.SplitSeq(list[len(list)-1], ",") {
			class, text, _ := strings.Cut(part, ":")
			amount, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil
			}
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

// mend takes amounts out of both sides' candidates if the original's do not add up. It returns what is wrong with Berth's then.
func (r Rules) mend(ask Ask, theirs Answer, want, got any) []string {
	if r.how(ask, theirs, "body.allocation_requests") != sums {
		return nil
	}
	asked := totals(ask.Target)
	if asked == nil || addsUp(asked, want) {
		return nil
	}
	var diffs []string
	if !addsUp(asked, got) {
		diffs = append(diffs, fmt.Sprintf("body.allocation_requests: amounts do not add up to %v", asked))
	}
	withoutAmounts(want)
	withoutAmounts(got)
	return diffs
}
