package conformance

import (
	"fmt"
	"maps"
	"slices"
)

// candidates is an answer of GET /allocation_candidates.
type candidates struct {
	requests  map[string][]any // by its canonical text: the request as it came
	count     int
	summaries map[string]any
	roots     map[string]string // of all providers, by UUID
}

func readCandidates(doc any) (candidates, error) {
	c := candidates{requests: map[string][]any{}}
	m, ok := Rules(nil).tidy(Ask{}, Answer{}, "body", doc).(map[string]any)
	if !ok {
		return c, fmt.Errorf("no object: %s", shorten(inJSON(doc)))
	}
	requests, ok := m["allocation_requests"].([]any)
	if !ok {
		return c, fmt.Errorf("no allocation_requests: %s", shorten(inJSON(doc)))
	}
	if c.summaries, ok = m["provider_summaries"].(map[string]any); !ok {
		return c, fmt.Errorf("no provider_summaries: %s", shorten(inJSON(doc)))
	}
	for _, r := range requests {
		c.requests[inJSON(r)] = append(c.requests[inJSON(r)], r)
	}
	c.count = len(requests)
	return c, nil
}

// limitedDiffs holds Berth's limited answer against the original's: as many candidates, each one of the unlimited ones
// and none more often than there, with the summaries that belong to them.
func (r Rules) limitedDiffs(ask Ask, roots map[string]string,
	wholeAnswer, theirAnswer, ourAnswer Answer) (diffs []string) {
	var docs [3]any
	var read [3]candidates
	for i, a := range []Answer{wholeAnswer, theirAnswer, ourAnswer} {
		var err error
		if docs[i], err = decode(a.Body); err != nil {
			return []string{"body: " + err.Error()}
		}
	}
	if overlaps(ask.Target) {
		return r.mend(ask, wholeAnswer, docs[0], docs[2]) // the original's unlimited answer is not whole
	}
	for i, doc := range docs {
		var err error
		if read[i], err = readCandidates(doc); err != nil {
			return append(diffs, "body: "+err.Error())
		}
	}
	whole, theirs, ours := read[0], read[1], read[2]
	whole.roots = roots
	shares := map[string]bool{}
	if mixed(ask.Target) {
		shares = sharing(map[string]any{"provider_summaries": ours.summaries})
	}
	if theirs.count != ours.count && (len(shares) == 0 || theirs.count > ours.count) {
		diffs = append(diffs, fmt.Sprintf("body.allocation_requests: %d of them, should be %d", ours.count, theirs.count))
	}
	for key, list := range ours.requests {
		if len(list) > len(whole.requests[key]) && !mayBeLost(list[0], shares) {
			diffs = append(diffs, "body.allocation_requests has what the original's unlimited answer has not, or not so often: "+
				shorten(key))
		}
	}
	for id, summary := range ours.summaries {
		want, ok := whole.summaries[id]
		if !ok && len(shares) > 0 {
			continue
		}
		if !ok {
			diffs = append(diffs, "body.provider_summaries."+id+" is not in the original's unlimited answer")
			continue
		}
		diffs = differ(diffs, "body.provider_summaries."+id, want, summary)
	}
	if len(shares) > 0 {
		return diffs
	}
	return append(diffs, whole.belonging(theirs, ours)...)
}

// belonging compares which summaries go with the candidates. The rule is read off the original's own answer: those of
// the named providers alone, or of their whole trees, or either where that comes to the same. Before 1.29, where trees
// are not told of, Berth gives those of the named providers alone; the original adds what candidates beyond the limit
// name of the same trees.
func (c candidates) belonging(theirs, ours candidates) []string {
	got := slices.Sorted(maps.Keys(ours.summaries))
	should := [][]string{}
	for _, rule := range []func(candidates) []string{c.named, c.trees} {
		if slices.Equal(rule(theirs), slices.Sorted(maps.Keys(theirs.summaries))) {
			should = append(should, rule(ours))
		}
	}
	if len(should) > 0 && !ours.nested() {
		should = append(should, c.named(ours))
	}
	if slices.ContainsFunc(should, func(want []string) bool { return slices.Equal(want, got) }) {
		return nil
	}
	return []string{fmt.Sprintf("body.provider_summaries of %v, should be of one of %v", got, should)}
}

// nested says whether an answer tells of trees.
func (c candidates) nested() bool {
	for _, v := range c.summaries {
		if summary, _ := v.(map[string]any); summary["root_provider_uuid"] != nil {
			return true
		}
	}
	return false
}

// named lists the providers that an answer's candidates name.
func (candidates) named(answer candidates) []string {
	ids := map[string]bool{}
	for _, list := range answer.requests {
		for _, r := range list {
			switch a := r.(map[string]any)["allocations"].(type) {
			case map[string]any:
				for id := range a {
					ids[id] = true
				}
			case []any: // before 1.12
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

// trees lists all summarised providers of the trees that an answer's candidates lie in.
func (c candidates) trees(answer candidates) []string {
	lies := map[string]bool{}
	for _, id := range c.named(answer) {
		lies[c.roots[id]] = true
	}
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(c.summaries)) {
		if lies[c.roots[id]] {
			ids = append(ids, id)
		}
	}
	return ids
}
