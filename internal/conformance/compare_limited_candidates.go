package conformance

import (
	"fmt"
	"maps"
	"slices"
)

// candidatesAnswer is an answer to GET /allocation_candidates.
type candidatesAnswer struct {
	requests  map[string][]any // by canonical text
	count     int
	summaries map[string]any
	roots     map[string]string // of all providers, by UUID
}

func readCandidates(doc any) (candidatesAnswer, error) {
	c := candidatesAnswer{requests: map[string][]any{}}
	m, ok := Rules(nil).canonical(Request{}, Answer{}, "body", doc).(map[string]any)
	if !ok {
		return c, fmt.Errorf("not an object: %s", shorten(toJSON(doc)))
	}
	requests, ok := m["allocation_requests"].([]any)
	if !ok {
		return c, fmt.Errorf("no allocation_requests: %s", shorten(toJSON(doc)))
	}
	if c.summaries, ok = m["provider_summaries"].(map[string]any); !ok {
		return c, fmt.Errorf("no provider_summaries: %s", shorten(toJSON(doc)))
	}
	for _, r := range requests {
		c.requests[toJSON(r)] = append(c.requests[toJSON(r)], r)
	}
	c.count = len(requests)
	return c, nil
}

// limitedDiffs compares Berth's limited answer with the original's limited and unlimited ones. It must have as many
// candidates as the limited one, each must be in the unlimited one, at most as often, and the summaries must be those
// of the candidates.
func (r Rules) limitedDiffs(ask Request, roots map[string]string,
	unlimitedAnswer, theirAnswer, ourAnswer Answer) (diffs []string) {
	var docs [3]any
	var read [3]candidatesAnswer
	for i, a := range []Answer{unlimitedAnswer, theirAnswer, ourAnswer} {
		var err error
		if docs[i], err = decode(a.Body); err != nil {
			return []string{"body: " + err.Error()}
		}
	}
	if overlaps(ask.Target) {
		return r.correctOriginal(ask, unlimitedAnswer, docs[0], docs[2]) // the original's unlimited answer is incomplete
	}
	for i, doc := range docs {
		var err error
		if read[i], err = readCandidates(doc); err != nil {
			return append(diffs, "body: "+err.Error())
		}
	}
	unlimited, theirs, ours := read[0], read[1], read[2]
	unlimited.roots = roots
	shares := map[string]bool{}
	if hasSeveralGroups(ask.Target) {
		shares = sharingProviders(map[string]any{"provider_summaries": ours.summaries})
	}
	if theirs.count != ours.count && (len(shares) == 0 || theirs.count > ours.count) {
		diffs = append(diffs, fmt.Sprintf("body.allocation_requests: %d items, want %d", ours.count, theirs.count))
	}
	for key, list := range ours.requests {
		if len(list) > len(unlimited.requests[key]) && !mayBeMissing(list[0], shares) {
			diffs = append(diffs, "body.allocation_requests has an item that is not in the original's unlimited answer, or "+
				"less often: "+
				shorten(key))
		}
	}
	for id, summary := range ours.summaries {
		want, ok := unlimited.summaries[id]
		if !ok && len(shares) > 0 {
			continue
		}
		if !ok {
			diffs = append(diffs, "body.provider_summaries."+id+" is not in the original's unlimited answer")
			continue
		}
		diffs = diffValues(diffs, "body.provider_summaries."+id, want, summary)
	}
	if len(shares) > 0 {
		return diffs
	}
	return append(diffs, unlimited.diffSummaries(theirs, ours)...)
}

// diffSummaries checks which providers have summaries. The rule is derived from the original's answer: the providers
// that candidates use, or their whole trees; both are allowed if they are the same there. Before microversion 1.29,
// where summaries have no trees, Berth returns the used providers only. The original adds providers of the same trees
// that candidates beyond the limit use.
func (c candidatesAnswer) diffSummaries(theirs, ours candidatesAnswer) []string {
	got := slices.Sorted(maps.Keys(ours.summaries))
	allowed := [][]string{}
	for _, rule := range []func(candidatesAnswer) []string{c.usedProviders, c.treesOfUsed} {
		if slices.Equal(rule(theirs), slices.Sorted(maps.Keys(theirs.summaries))) {
			allowed = append(allowed, rule(ours))
		}
	}
	if len(allowed) > 0 && !ours.hasTrees() {
		allowed = append(allowed, c.usedProviders(ours))
	}
	if slices.ContainsFunc(allowed, func(want []string) bool { return slices.Equal(want, got) }) {
		return nil
	}
	return []string{fmt.Sprintf("body.provider_summaries of %v, want one of %v", got, allowed)}
}

// hasTrees reports whether the summaries contain the roots of trees.
func (c candidatesAnswer) hasTrees() bool {
	for _, v := range c.summaries {
		if summary, _ := v.(map[string]any); summary["root_provider_uuid"] != nil {
			return true
		}
	}
	return false
}

// usedProviders returns the providers that the candidates of an answer use, sorted.
func (candidatesAnswer) usedProviders(answer candidatesAnswer) []string {
	ids := map[string]bool{}
	for _, list := range answer.requests {
		for _, r := range list {
			switch a := r.(map[string]any)["allocations"].(type) {
			case map[string]any:
				for id := range a {
					ids[id] = true
				}
			case []any: // before microversion 1.12
				for _, one := range a {
					if rp, ok := one.(map[string]any)["resource_provider"].(map[string]any); ok {
						ids[fmt.Sprint(rp["uuid"])] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// treesOfUsed returns all providers with a summary in the trees that the candidates of an answer use, sorted.
func (c candidatesAnswer) treesOfUsed(answer candidatesAnswer) []string {
	used := map[string]bool{}
	for _, id := range c.usedProviders(answer) {
		used[c.roots[id]] = true
	}
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(c.summaries)) {
		if used[c.roots[id]] {
			ids = append(ids, id)
		}
	}
	return ids
}
