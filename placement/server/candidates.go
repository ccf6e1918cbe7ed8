package server

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/explain"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

func shuffle(n int, swap func(i, j int)) { rand.Shuffle(n, swap) }

// parseCandidateQuery reads the query of GET /allocation_candidates and returns it with the snapshot to search. unknown
// is an error if the query names a resource class or a trait that does not exist.
func (c *call) parseCandidateQuery() (ask resource.Ask, snapshot *index.Snapshot, unknown, err error) {
	values, err := c.query()
	if err != nil {
		return ask, nil, nil, err
	}
	if ask, err = api.ParseAsk(c.version, values); err != nil {
		return ask, nil, nil, err
	}
	unknown = c.server.names.check(c.ctx(), ask.Groups, ask.RootRequired, ask.RootForbidden)
	ask.Flat = c.version < sinceNestedCandidates
	snapshot, err = c.currentSnapshot()
	return ask, snapshot, unknown, err
}

// candidates handles GET /allocation_candidates. It sends a large answer in chunks while the search runs, so the memory
// it needs does not depend on the size of the answer.
func (c *call) candidates() error {
	ask, snapshot, unknown, err := c.parseCandidateQuery()
	if err != nil {
		return err
	}
	if unknown != nil {
		return c.sendNoCandidates(ask, snapshot, unknown)
	}
	c.setModified(time.Time{})
	w := newAnswerWriter(c, snapshot, ask)
	defer w.close()
	began := c.server.now()
	clock := c.newSearchClock(&w.sending)
	found := c.search(clock.expired, snapshot, ask)
	if c.server.opts.RandomizeCandidates {
		found = slices.Values(c.sample(found, ask.Limit))
	}
	n, err := w.answer(found)
	if err == nil {
		err = clock.err() // the list is incomplete if the search was stopped
	}
	if err != nil {
		return err
	}
	took := c.server.now().Sub(began) - w.sending
	c.server.metrics.Candidates(took, n)
	c.server.log.Debug("candidates found", "request_id", c.id, "found", n, "took", took,
		"providers", snapshot.Providers())
	if n == 0 {
		why, err := c.explanation(snapshot, ask)
		if c.ctx().Err() != nil {
			return c.ctx().Err()
		}
		if err == nil && why.Reason != "" {
			c.w.Header().Set(api.ReasonHeader, headerValue(why.Reason))
		}
	}
	return w.finish()
}

// explanation returns why there are no candidates.
func (c *call) explanation(snapshot *index.Snapshot, ask resource.Ask) (explain.Explanation, error) {
	began, clock := c.server.now(), c.newSearchClock(new(time.Duration))
	why := explain.Why(snapshot, ask, clock.expired)
	took := c.server.now().Sub(began)
	c.server.metrics.Explain(took)
	c.server.log.Debug("candidates explained", "request_id", c.id, "reason", why.Reason, "took", took)
	return why, clock.err() // an explanation that was stopped is not usable
}

// searchTimeout bounds the CPU time of one search. Nearly all searches take milliseconds, but a crafted query can
// search indefinitely, because the problem is NP-hard.
const searchTimeout = 20 * time.Second

// searchClock stops a search when its client has disconnected or after searchTimeout.
type searchClock struct {
	call     *call
	began    time.Time
	sending  *time.Duration // time spent sending the answer, which does not count
	timedOut bool
}

func (c *call) newSearchClock(sending *time.Duration) *searchClock {
	return &searchClock{call: c, began: c.server.now(), sending: sending}
}

// expired reports whether the search must stop.
func (e *searchClock) expired() bool {
	e.timedOut = e.timedOut || e.call.server.now().Sub(e.began)-*e.sending > searchTimeout
	return e.timedOut || e.call.ctx().Err() != nil
}

// err returns why the search was stopped; nil if it was not.
func (e *searchClock) err() error {
	switch err := e.call.ctx().Err(); {
	case err != nil:
		return err
	case e.timedOut:
		return e.call.searchTimeoutError()
	}
	return nil
}

// searchTimeoutError returns the error for a search that was stopped after searchTimeout. A search that timed out is
// reported as 503, never as an empty list.
func (c *call) searchTimeoutError() error {
	detail := fmt.Sprintf("The search for candidates was stopped: it took more than %v. "+
		"Ask for fewer groups, for equal amounts, or for fewer same_subtree clauses.", searchTimeout)
	c.server.log.Warn("candidate search timed out", "request_id", c.id, "uri", c.r.URL.RequestURI(),
		"after", searchTimeout)
	entry := api.ErrorDoc{Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Detail: detail,
		RequestID: c.id}
	if c.version >= sinceErrorCodes {
		entry.Code = api.CodeUndefined
	}
	return &statusError{status: entry.Status, detail: detail, doc: api.ErrorsDoc{Errors: []api.ErrorDoc{entry}}}
}

// search returns the candidates up to the limits of the query and of MaxCandidates, until stop returns true. Each
// candidate is valid until the next one is returned.
func (c *call) search(stop func() bool, snapshot *index.Snapshot, ask resource.Ask) iter.Seq[candidate.Candidate] {
	limit, most := ask.Limit, max(c.server.opts.MaxCandidates, 0)
	if c.server.opts.RandomizeCandidates {
		limit = 0 // the sample is taken from all candidates
	}
	if ask.Limit = limit; limit == 0 || 0 < most && most < limit {
		ask.Limit = most
	}
	return candidate.Find(snapshot, ask, candidate.Options{Stop: stop, BreadthFirst: c.server.opts.BreadthFirst})
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

// explain handles GET /berth/v1/explain: it answers why a query for candidates finds none. The reason is empty if it
// finds some.
func (c *call) explain() error {
	c.version = api.Latest // the query is that of the newest microversion
	ask, snapshot, unknown, err := c.parseCandidateQuery()
	if err = cmp.Or(unknown, err); err != nil {
		return err
	}
	why, err := c.explanation(snapshot, ask)
	if err != nil {
		return err
	}
	answer := api.Explanation{Reason: why.Reason, Funnel: []api.ExplainFunnelRow{},
		Minimal: append([]string{}, why.Minimal...), Rough: why.Rough, Nearest: []api.ExplainNearestMiss{}}
	for _, step := range why.Funnel {
		answer.Funnel = append(answer.Funnel, api.ExplainFunnelRow(step))
	}
	for _, m := range why.Nearest {
		miss := api.ExplainNearestMiss{Root: m.Root, Host: m.Host, Deficits: []api.ExplainDeficit{}}
		for _, d := range m.Deficits {
			held, err := c.deficitHolders(snapshot, d)
			if err != nil {
				return err
			}
			miss.Deficits = append(miss.Deficits, api.ExplainDeficit{Class: d.Class, Cause: string(d.Cause),
				Asks: d.Asks, Free: d.Free, Of: d.Of, Text: d.String(), HeldBy: held})
		}
		answer.Nearest = append(answer.Nearest, miss)
	}
	return c.sendJSON(http.StatusOK, answer)
}

// maxHolders is how many consumers of one provider an explanation names.
const maxHolders = 8

// deficitHolders returns the consumers that hold the missing resources, if the caller may read allocations.
func (c *call) deficitHolders(snapshot *index.Snapshot, d explain.Deficit) (held []api.ExplainHolder, err error) {
	const rule = "placement:resource_providers:allocations:list"
	if may, _ := c.server.opts.Enforcer.Allow(rule, c.caller, c.target(rule)); !may {
		return nil, nil
	}
	for _, id := range d.Taken {
		all, err := c.server.store.ProviderAllocations(c.ctx(), id)
		if fault.Is(err, fault.NotFound) {
			continue // deleted in the meantime
		}
		if err != nil {
			return nil, err
		}
		holder := api.ExplainHolder{Provider: id}
		if at, known := snapshot.Find(id); known {
			holder.Name = at.Node().Name
		}
		for _, consumer := range slices.Sorted(maps.Keys(all.Shares)) {
			if all.Shares[consumer].Amounts[d.Class] > 0 && len(holder.Consumers) < maxHolders {
				holder.Consumers = append(holder.Consumers, consumer)
			}
		}
		if len(holder.Consumers) > 0 {
			held = append(held, holder)
		}
	}
	return held, nil
}
