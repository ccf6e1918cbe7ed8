// Package candidates has the handlers that search: queries for candidates, why there are none, and how often a query
// could be claimed. The files, from the bottom to the top:
//
//	search      a search with its limits
//	summaries   the summaries of providers, encoded
//	stream      the answer with candidates, in chunks
//	candidates  the routes, and queries for candidates
//	explain     why there are none
//	headroom    how often a query could be claimed
package candidates

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
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

// Routes returns the routes of queries for candidates.
func Routes() []request.Route {
	type verbs = map[string]request.Verb
	return []request.Route{
		{Path: "/allocation_candidates", Methods: verbs{
			"GET": request.Read(10, "allocation_candidates:list", request.Limited(listCandidates))}},
		{Path: "/berth/v1/explain", Methods: verbs{ // same rule as the query that it explains
			"GET": request.Read(0, "allocation_candidates:list", request.Limited(showExplanation))}},
		{Path: "/berth/v1/headroom", Methods: verbs{ // how often the query could be claimed
			"GET": request.Read(0, "allocation_candidates:list", request.Alone(request.Limited(showHeadroom)))}},
	}
}

// parseCandidateQuery reads the query of GET /allocation_candidates and returns it with the snapshot to search. unknown
// is an error if the query names a resource class or a trait that does not exist.
func parseCandidateQuery(c *request.Call) (ask resource.Ask, snapshot *index.Snapshot, unknown, err error) {
	values, err := c.Query()
	if err != nil {
		return ask, nil, nil, err
	}
	return parseCandidates(c, values)
}

// parseCandidates is parseCandidateQuery for these parameters.
func parseCandidates(c *request.Call, values url.Values) (ask resource.Ask, snapshot *index.Snapshot, unknown,
	err error) {
	if ask, err = api.ParseAsk(c.Microversion, values); err != nil {
		return ask, nil, nil, err
	}
	unknown = c.Service.Names.Check(c.Context(), ask.Groups, ask.RootRequired, ask.RootForbidden)
	ask.Flat = c.Microversion < request.SinceNestedCandidates
	if snapshot, err = c.Service.Index.CatchUp(c.Context()); err == nil {
		err = nameTrees(c, ask.Groups, snapshot)
	}
	return ask, snapshot, unknown, err
}

// nameTrees gives in_tree of groups the letters that the index has: MariaDB finds a provider also in others.
func nameTrees(c *request.Call, groups []resource.Group, snapshot *index.Snapshot) error {
	for i := range groups {
		id := groups[i].InTree
		if _, known := snapshot.Find(id); id == "" || known {
			continue
		}
		found, err := c.Service.Store.Providers(c.Context(), store.Filter{ID: id})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			groups[i].InTree = found[0].ID
		}
	}
	return nil
}

// listCandidates handles GET /allocation_candidates. It sends an answer of more than heldChunks in chunks while the
// search runs, so the memory it needs does not depend on the size of the answer.
func listCandidates(c *request.Call) error {
	ask, snapshot, unknown, err := parseCandidateQuery(c)
	if err != nil {
		return err
	}
	if unknown != nil {
		return sendNoCandidates(c, ask, snapshot, unknown)
	}
	c.SetModified(time.Time{})
	if forScheduling(c) {
		c.W.Header().Set(api.LimitHeader, strconv.Itoa(max(c.Service.Search.MaxCandidates, 0)))
	}
	w := newAnswerWriter(c, snapshot, ask)
	defer w.close()
	began := c.Service.Now()
	clock := newSearchClock(c, &w.sending)
	found := search(c, clock, snapshot, ask)
	if c.Service.Search.RandomizeCandidates {
		found = slices.Values(sample(c, found, ask.Limit))
	}
	n, err := w.answer(found)
	undecided := ""
	if err == nil {
		undecided, err = judge(c, clock, n)
	}
	if err != nil {
		return err
	}
	took := c.Service.Now().Sub(began) - w.sending
	c.Service.Metrics.Candidates(took, n)
	c.Service.Log.Debug("candidates found", "request_id", c.ID, "found", n, "took", took,
		"providers", snapshot.Providers())
	if n == 0 {
		if err := explainNone(c, w, snapshot, ask); err != nil {
			return err
		}
	}
	return w.finish(undecided)
}

// explainNone adds why there are no candidates: the reason in a header, and all of it in the answer to a scheduler.
func explainNone(c *request.Call, w *answerWriter, snapshot *index.Snapshot, ask resource.Ask) error {
	why, err := explanationOf(c, snapshot, ask)
	if c.Context().Err() != nil {
		return c.Context().Err()
	}
	if err != nil || why.Reason == "" {
		return nil // the answer is complete without a reason
	}
	c.W.Header().Set(api.ReasonHeader, headerValue(why.Reason))
	if !forScheduling(c) {
		return nil
	}
	document, err := explanationDocument(c, snapshot, why, false)
	if err != nil {
		return err
	}
	return w.explain(document)
}

// judge returns the error for a search that found n candidates and was not complete. A scheduler can do with those that
// were found: it gets them with what was not decided.
func judge(c *request.Call, clock *searchClock, n int) (undecided string, err error) {
	err = clock.err()
	if err == nil || c.Context().Err() != nil || n == 0 || !forScheduling(c) {
		return "", err
	}
	c.Service.Log.Info("candidate search not completed for a scheduler", "request_id", c.ID, "found", n,
		"undecided", clock.undecided)
	return fault.TextOf(err), nil
}

// sample returns limit randomly chosen candidates, or all if limit is 0, in random order.
func sample(c *request.Call, found iter.Seq[candidate.Candidate], limit int) []candidate.Candidate {
	var list []candidate.Candidate
	seen := 0
	for one := range found {
		if seen++; limit == 0 || len(list) < limit {
			list = append(list, one.Clone())
		} else if at := c.Service.Pick(seen); at < limit { // reservoir sampling: all have the same probability
			list[at] = one.Clone()
		}
	}
	c.Service.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
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
func sendNoCandidates(c *request.Call, ask resource.Ask, snapshot *index.Snapshot, unknown error) error {
	clock := newSearchClock(c, new(time.Duration)) // one time limit for all groups
	anyCandidate := func(ask resource.Ask) (bool, error) { return clock.anyCandidate(snapshot, ask) }
	if err := c.UnknownInAsk(ask, snapshot, unknown, anyCandidate); err != nil {
		return err
	}
	c.SetModified(time.Time{})
	c.W.Header().Set(api.ReasonHeader, headerValue(fault.TextOf(unknown)))
	return c.SendJSON(http.StatusOK, request.Object{"allocation_requests": []request.Object{},
		"provider_summaries": request.Object{}})
}
