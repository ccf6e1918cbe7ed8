package difference

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// candidatesPath is the path of a query for candidates.
const candidatesPath = "/allocation_candidates"

// candidates compares two documents with candidates and reports whether they are some. Three things are known: the
// original's wrong amounts, its lost candidates, and another choice if there is a limit.
func (c *comparison) candidates(want, got any) bool {
	path, _, _ := strings.Cut(c.target, "?")
	theirs, ok := readCandidates(want)
	ours, same := readCandidates(got)
	if path != candidatesPath || !ok || !same {
		return false
	}
	query := queryOf(c.target)
	overlapping := overlaps(query)
	if overlapping {
		c.known = append(c.known, wrongAmounts)
		c.overlapping(query, theirs, ours)
		return true
	}
	shares := map[string]bool{}
	if hasSeveralGroups(query) {
		shares = ours.sharing()
	}
	if c.reached(query, len(theirs.list), len(ours.list)) {
		c.known = append(c.known, limited)
		if len(theirs.list) != len(ours.list) && (len(shares) == 0 || len(theirs.list) > len(ours.list)) {
			c.differ("body.allocation_requests", "%d items, the original has %d", len(ours.list), len(theirs.list))
		}
		c.commonSummaries(theirs, ours)
		return true
	}
	extra := without(ours.list, theirs.list)
	lost := len(shares) > 0 && len(extra) > 0 && !slices.ContainsFunc(extra, func(v any) bool {
		return !mayBeLost(v, shares)
	})
	if !lost {
		c.values("body", want, got)
		return true
	}
	c.known = append(c.known, lostCandidate)
	for _, v := range without(theirs.list, ours.list) {
		c.differ("body.allocation_requests", "an item is missing: %s", shorten(toJSON(v)))
	}
	c.commonSummaries(theirs, ours)
	return true
}

// reached reports whether one of the lists is as long as the limit of the query or of the configuration.
func (c *comparison) reached(query url.Values, lengths ...int) bool {
	limit := c.options.Limit
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 && (limit <= 0 || n < limit) {
		limit = n
	}
	return limit > 0 && slices.Max(lengths) >= limit
}

// Trees returns targets without a limit that together check the choice of candidates of two answers, of which one
// reached its limit: the query in the tree of a candidate, for at most most trees of each answer. limit is that of the
// configuration. It returns nothing for answers that have all candidates, for a query that names a tree, and before
// microversion 1.31, which has no in_tree.
func Trees(target string, limit int, theirs, ours Answer, most int) (targets []string) {
	path, _, _ := strings.Cut(target, "?")
	query := queryOf(target)
	if path != candidatesPath || query == nil || query.Has("in_tree") {
		return nil
	}
	c, limited := comparison{options: Options{Limit: limit}}, false
	var roots []string
	for _, a := range []Answer{theirs, ours} {
		document, err := decode(a.Body)
		if err != nil {
			return nil
		}
		candidates, ok := readCandidates(document)
		if !ok {
			return nil
		}
		limited = limited || c.reached(query, len(candidates.list))
		some := candidates.roots()
		roots = append(roots, some[:min(most, len(some))]...)
	}
	if !limited {
		return nil
	}
	query.Del("limit")
	for _, root := range roots {
		query.Set("in_tree", root)
		targets = append(targets, candidatesPath+"?"+query.Encode())
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

// candidates is the document of GET /allocation_candidates.
type candidates struct {
	list      []any
	summaries map[string]any
}

func readCandidates(document any) (c candidates, ok bool) {
	m, _ := document.(map[string]any)
	if c.list, ok = m["allocation_requests"].([]any); !ok {
		return c, false
	}
	c.summaries, ok = m["provider_summaries"].(map[string]any)
	return c, ok
}

// roots returns the roots of the trees that the candidates use, in the order of the candidates.
func (c candidates) roots() (list []string) {
	for _, one := range c.list {
		for _, id := range providersOf(one) {
			summary, _ := c.summaries[id].(map[string]any)
			root, _ := summary["root_provider_uuid"].(string)
			if root != "" && !slices.Contains(list, root) {
				list = append(list, root)
			}
		}
	}
	return list
}

// providersOf returns the providers of a candidate, sorted. Before microversion 1.12 a candidate has a list.
func providersOf(candidate any) (ids []string) {
	m, _ := candidate.(map[string]any)
	switch a := m["allocations"].(type) {
	case map[string]any:
		ids = slices.Sorted(maps.Keys(a))
	case []any:
		for _, part := range a {
			p, _ := part.(map[string]any)
			rp, _ := p["resource_provider"].(map[string]any)
			if id, is := rp["uuid"].(string); is {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// sharing returns the sharing providers. They are known from microversion 1.17 on, where summaries have traits.
func (c candidates) sharing() map[string]bool {
	found := map[string]bool{}
	for id, v := range c.summaries {
		summary, _ := v.(map[string]any)
		traits, _ := summary["traits"].([]any)
		if slices.Contains(traits, any("MISC_SHARES_VIA_AGGREGATE")) {
			found[id] = true
		}
	}
	return found
}

// mayBeLost reports whether the original may lose a candidate: only sharing providers serve its unsuffixed group.
// Before microversion 1.34 a candidate has no mappings; then one sharing provider is enough.
func mayBeLost(candidate any, shares map[string]bool) bool {
	m, _ := candidate.(map[string]any)
	if mappings, ok := m["mappings"].(map[string]any); ok {
		plain, _ := mappings[""].([]any)
		return len(plain) > 0 && !slices.ContainsFunc(plain, func(v any) bool {
			id, _ := v.(string)
			return !shares[id]
		})
	}
	return slices.ContainsFunc(providersOf(candidate), func(id string) bool { return shares[id] })
}

// commonSummaries compares the summaries of the providers that both answers have.
func (c *comparison) commonSummaries(theirs, ours candidates) {
	for _, id := range slices.Sorted(maps.Keys(theirs.summaries)) {
		if other, ok := ours.summaries[id]; ok {
			c.values("body.provider_summaries."+id, theirs.summaries[id], other)
		}
	}
}

// hasSeveralGroups reports whether a query has an unsuffixed group and another one.
func hasSeveralGroups(query url.Values) bool {
	others := 0
	for key := range query {
		if strings.HasPrefix(key, "resources") && key != "resources" {
			others++
		}
	}
	return query.Has("resources") && others > 0
}

// overlaps reports whether the unsuffixed group and a suffixed one request the same class.
func overlaps(query url.Values) bool {
	plain := amounts(query.Get("resources"))
	for key, list := range query {
		if !strings.HasPrefix(key, "resources") || key == "resources" {
			continue
		}
		for class := range amounts(list[0]) {
			if _, both := plain[class]; both {
				return true
			}
		}
	}
	return false
}

// amounts parses the value of a parameter such as VCPU:1,MEMORY_MB:512.
func amounts(text string) map[string]int64 {
	all := map[string]int64{}
	for part := range strings.SplitSeq(text, ",") {
		class, number, _ := strings.Cut(part, ":")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && class != "" {
			all[class] = n
		}
	}
	return all
}

// overlapping compares candidates of which the original has wrong amounts: Berth must have all of them, without their
// amounts, and Berth's amounts must add up to the requested ones.
func (c *comparison) overlapping(query url.Values, theirs, ours candidates) {
	requested := map[string]int64{}
	for key, list := range query {
		if strings.HasPrefix(key, "resources") {
			for class, n := range amounts(list[0]) {
				requested[class] += n
			}
		}
	}
	for _, one := range ours.list {
		if sums := takeAmounts(one); !maps.Equal(sums, requested) {
			c.differ("body.allocation_requests", "the amounts %v of a candidate are not those of the request, %v", sums,
				requested)
		}
	}
	for _, one := range theirs.list {
		takeAmounts(one)
	}
	if c.reached(query, len(theirs.list), len(ours.list)) {
		c.known = append(c.known, limited)
	} else {
		for _, v := range without(theirs.list, ours.list) {
			c.differ("body.allocation_requests", "an item is missing: %s", shorten(toJSON(v)))
		}
	}
	c.commonSummaries(theirs, ours)
}

// takeAmounts returns the sums of a candidate's amounts by class, and removes the amounts.
func takeAmounts(candidate any) map[string]int64 {
	m, _ := candidate.(map[string]any)
	var parts []any
	switch a := m["allocations"].(type) {
	case []any: // before microversion 1.12
		parts = a
	case map[string]any:
		parts = slices.Collect(maps.Values(a))
	}
	sums := map[string]int64{}
	for _, part := range parts {
		p, _ := part.(map[string]any)
		resources, _ := p["resources"].(map[string]any)
		for class, v := range resources {
			n, _ := v.(float64)
			sums[class] += int64(n)
			resources[class] = "(amount)"
		}
	}
	return sums
}
