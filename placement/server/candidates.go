package server

import (
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

// candidateRoutes returns the routes of queries for candidates.
func candidateRoutes() []route {
	type verbs = map[string]verb
	return []route{
		{Path: "/allocation_candidates", Methods: verbs{
			"GET": read(10, "allocation_candidates:list", limited((*call).candidates))}},
		{Path: "/berth/v1/explain", Methods: verbs{ // same rule as the query that it explains
			"GET": read(0, "allocation_candidates:list", limited((*call).explain))}},
		{Path: "/berth/v1/headroom", Methods: verbs{ // how often the query could be claimed
			"GET": read(0, "allocation_candidates:list", alone(limited((*call).headroom)))}},
	}
}

// parseCandidateQuery reads the query of GET /allocation_candidates and returns it with the snapshot to search. unknown
// is an error if the query names a resource class or a trait that does not exist.
func (c *call) parseCandidateQuery() (ask resource.Ask, snapshot *index.Snapshot, unknown, err error) {
	values, err := c.query()
	if err != nil {
		return ask, nil, nil, err
	}
	return c.parseCandidates(values)
}

// parseCandidates is parseCandidateQuery for these parameters.
func (c *call) parseCandidates(values url.Values) (ask resource.Ask, snapshot *index.Snapshot, unknown, err error) {
	if ask, err = api.ParseAsk(c.version, values); err != nil {
		return ask, nil, nil, err
	}
	unknown = c.server.names.Check(c.Context(), ask.Groups, ask.RootRequired, ask.RootForbidden)
	ask.Flat = c.version < sinceNestedCandidates
	if snapshot, err = c.server.index.CatchUp(c.Context()); err == nil {
		err = c.nameTrees(ask.Groups, snapshot)
	}
	return ask, snapshot, unknown, err
}

// nameTrees gives in_tree of groups the letters that the index has: MariaDB finds a provider also in others.
func (c *call) nameTrees(groups []resource.Group, snapshot *index.Snapshot) error {
	for i := range groups {
		id := groups[i].InTree
		if _, known := snapshot.Find(id); id == "" || known {
			continue
		}
		found, err := c.server.store.Providers(c.Context(), store.Filter{ID: id})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			groups[i].InTree = found[0].ID
		}
	}
	return nil
}

// candidates handles GET /allocation_candidates. It sends an answer of more than heldChunks in chunks while the search
// runs, so the memory it needs does not depend on the size of the answer.
func (c *call) candidates() error {
	ask, snapshot, unknown, err := c.parseCandidateQuery()
	if err != nil {
		return err
	}
	if unknown != nil {
		return c.sendNoCandidates(ask, snapshot, unknown)
	}
	c.setModified(time.Time{})
	if c.forScheduling() {
		c.W.Header().Set(api.LimitHeader, strconv.Itoa(max(c.server.search.MaxCandidates, 0)))
	}
	w := newAnswerWriter(c, snapshot, ask)
	defer w.close()
	began := c.server.now()
	clock := c.newSearchClock(&w.sending)
	found := c.search(clock, snapshot, ask)
	if c.server.search.RandomizeCandidates {
		found = slices.Values(c.sample(found, ask.Limit))
	}
	n, err := w.answer(found)
	undecided := ""
	if err == nil {
		undecided, err = c.judge(clock, n)
	}
	if err != nil {
		return err
	}
	took := c.server.now().Sub(began) - w.sending
	c.server.metrics.Candidates(took, n)
	c.server.log.Debug("candidates found", "request_id", c.ID, "found", n, "took", took,
		"providers", snapshot.Providers())
	if n == 0 {
		if err := c.explainNone(w, snapshot, ask); err != nil {
			return err
		}
	}
	return w.finish(undecided)
}

// explainNone adds why there are no candidates: the reason in a header, and all of it in the answer to a scheduler.
func (c *call) explainNone(w *answerWriter, snapshot *index.Snapshot, ask resource.Ask) error {
	why, err := c.explanation(snapshot, ask)
	if c.Context().Err() != nil {
		return c.Context().Err()
	}
	if err != nil || why.Reason == "" {
		return nil // the answer is complete without a reason
	}
	c.W.Header().Set(api.ReasonHeader, headerValue(why.Reason))
	if !c.forScheduling() {
		return nil
	}
	document, err := c.explanationDocument(snapshot, why, false)
	if err != nil {
		return err
	}
	return w.explain(document)
}

// judge returns the error for a search that found n candidates and was not complete. A scheduler can do with those that
// were found: it gets them with what was not decided.
func (c *call) judge(clock *searchClock, n int) (undecided string, err error) {
	err = clock.err()
	if err == nil || c.Context().Err() != nil || n == 0 || !c.forScheduling() {
		return "", err
	}
	c.server.log.Info("candidate search not completed for a scheduler", "request_id", c.ID, "found", n,
		"undecided", clock.undecided)
	return fault.TextOf(err), nil
}

// sample returns limit randomly chosen candidates, or all if limit is 0, in random order.
func (c *call) sample(found iter.Seq[candidate.Candidate], limit int) []candidate.Candidate {
	var list []candidate.Candidate
	seen := 0
	for one := range found {
		if seen++; limit == 0 || len(list) < limit {
			list = append(list, one.Clone())
		} else if at := c.server.pick(seen); at < limit { // reservoir sampling: all have the same probability
			list[at] = one.Clone()
		}
	}
	c.server.shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// headerValue returns a text without control characters, shortened to fit into a header.
func headerValue(text string) string {
	const longest = 1000
	out := make([]rune, 0, len(text))
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			r = ' '
		}
		if out = append(out, r); len(out) == longest {
			break
		}
	}
	return string(out)
}

// sendNoCandidates answers a query for candidates with a name that does not exist: with an empty list or an error.
func (c *call) sendNoCandidates(ask resource.Ask, snapshot *index.Snapshot, unknown error) error {
	clock := c.newSearchClock(new(time.Duration)) // one time limit for all groups
	anyCandidate := func(ask resource.Ask) (bool, error) { return clock.anyCandidate(snapshot, ask) }
	if err := c.unknownInAsk(ask, snapshot, unknown, anyCandidate); err != nil {
		return err
	}
	c.setModified(time.Time{})
	c.W.Header().Set(api.ReasonHeader, headerValue(fault.TextOf(unknown)))
	return c.sendJSON(http.StatusOK, object{"allocation_requests": []object{}, "provider_summaries": object{}})
}
