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

// parseCandidateQuery reads the query of a question for candidates, and the snapshot that answers it. unknown says which names there are not.
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

// candidates is GET /allocation_candidates. A large answer is sent in parts while the rest is still being found, so what it takes of
// memory does not grow with it.
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
	effort := c.newSearchClock(&w.sending)
	found := c.search(effort.expired, snapshot, ask)
	if c.server.opts.RandomizeCandidates {
		found = slices.Values(c.sample(found, ask.Limit))
	}
	n, err := w.answer(found)
	if err == nil {
		err = effort.err() // the list may have been cut short
	}
	if err != nil {
		return err
	}
	took := c.server.now().Sub(began) - w.sending
	c.server.metrics.Candidates(took, n)
	c.server.log.Debug("candidates", "request_id", c.id, "found", n, "took", took, "providers", snapshot.Providers())
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

// explanation asks for an explanation.
func (c *call) explanation(snapshot *index.Snapshot, ask resource.Ask) (explain.Explanation, error) {
	began, effort := c.server.now(), c.newSearchClock(new(time.Duration))
	why := explain.Why(snapshot, ask, effort.expired)
	took := c.server.now().Sub(began)
	c.server.metrics.Explain(took)
	c.server.log.Debug("explained", "request_id", c.id, "reason", why.Reason, "took", took)
	return why, effort.err() // one that was given up is worth nothing
}

// searchTimeout is how long a question may keep a core busy. What fits into what is a hard problem: somebody can always make up a
// question that takes for ever, and it is not for him to have a core that long. Nearly all take milliseconds.
const searchTimeout = 20 * time.Second

// searchClock is the work on one question: given up when nobody waits for the answer any more, or when it takes too long.
type searchClock struct {
	call     *call
	began    time.Time
	sending  *time.Duration // time that does not count: the client's
	timedOut bool
}

func (c *call) newSearchClock(sending *time.Duration) *searchClock {
	return &searchClock{call: c, began: c.server.now(), sending: sending}
}

// expired is a stop function: it reports whether the search must end.
func (e *searchClock) expired() bool {
	e.timedOut = e.timedOut || e.call.server.now().Sub(e.began)-*e.sending > searchTimeout
	return e.timedOut || e.call.ctx().Err() != nil
}

// err says why it was given up, or nothing.
func (e *searchClock) err() error {
	switch err := e.call.ctx().Err(); {
	case err != nil:
		return err
	case e.timedOut:
		return e.call.searchTimeout()
	}
	return nil
}

// searchTimeout is the refusal of a question that took too long. It is never told as an empty answer: nobody knows that it is.
func (c *call) searchTimeout() error {
	detail := fmt.Sprintf("It took more than %v to find out which providers fit this request, so the search was given up. "+
		"Ask for fewer groups, for equal amounts, or for fewer same_subtree clauses.", searchTimeout)
	c.server.log.Warn("a search was given up", "request_id", c.id, "uri", c.r.URL.RequestURI(), "after", searchTimeout)
	entry := api.ErrorDoc{Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Detail: detail, RequestID: c.id}
	if c.version >= sinceErrorCodes {
		entry.Code = api.CodeUndefined
	}
	return &statusError{status: entry.Status, detail: detail, doc: api.ErrorsDoc{Errors: []api.ErrorDoc{entry}}}
}

// search takes from the solver what the options and the microversion allow, and stops when nobody waits any more. What it gives is
// overwritten by the next.
func (c *call) search(stop func() bool, snapshot *index.Snapshot, ask resource.Ask) iter.Seq[candidate.Candidate] {
	limit, most := ask.Limit, max(c.server.opts.MaxCandidates, 0)
	if c.server.opts.RandomizeCandidates {
		limit = 0 // it takes from all
	}
	if ask.Limit = limit; limit == 0 || 0 < most && most < limit {
		ask.Limit = most
	}
	return candidate.Find(snapshot, ask, candidate.Options{Stop: stop, BreadthFirst: c.server.opts.BreadthFirst})
}

// sample takes as many as limit by chance, all when it is 0, and leaves their order to chance.
func (c *call) sample(found iter.Seq[candidate.Candidate], limit int) []candidate.Candidate {
	var list []candidate.Candidate
	seen := 0
	for one := range found {
		if seen++; limit == 0 || len(list) < limit {
			list = append(list, one.Clone())
		} else if at := c.server.pick(seen); at < limit { // each of those seen has the same chance to be among the list
			list[at] = one.Clone()
		}
	}
	c.server.shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// headerValue keeps a sentence within what a header may hold.
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

// explain is GET /berth/v1/explain: why the same query would find nothing, or that it would not.
func (c *call) explain() error {
	c.version = api.Latest // the answer is Berth's own, and the question that of the newest microversion
	ask, snapshot, unknown, err := c.parseCandidateQuery()
	if err = cmp.Or(unknown, err); err != nil {
		return err
	}
	why, err := c.explanation(snapshot, ask)
	if err != nil {
		return err
	}
	told := api.Explanation{Reason: why.Reason, Funnel: []api.ExplainStep{}, Minimal: append([]string{}, why.Minimal...), Rough: why.Rough, Nearest: []api.ExplainMiss{}}
	for _, step := range why.Funnel {
		told.Funnel = append(told.Funnel, api.ExplainStep(step))
	}
	for _, m := range why.Nearest {
		miss := api.ExplainMiss{Root: m.Root, Host: m.Host, Deficits: []api.ExplainDeficit{}}
		for _, d := range m.Deficits {
			held, err := c.deficitHolders(snapshot, d)
			if err != nil {
				return err
			}
			miss.Deficits = append(miss.Deficits, api.ExplainDeficit{Class: d.Class, Cause: string(d.Cause), Asks: d.Asks, Free: d.Free, Of: d.Of, Text: d.String(), HeldBy: held})
		}
		told.Nearest = append(told.Nearest, miss)
	}
	return c.sendJSON(http.StatusOK, told)
}

// maxHolders is how many consumers are told of one provider.
const maxHolders = 8

// deficitHolders reads who has what is lacking, if the caller may read it.
func (c *call) deficitHolders(snapshot *index.Snapshot, d explain.Deficit) (held []api.ExplainHolder, err error) {
	const rule = "placement:resource_providers:allocations:list"
	if may, _ := c.server.opts.Enforcer.Allow(rule, c.caller, c.target(rule)); !may {
		return nil, nil
	}
	for _, id := range d.Taken {
		all, err := c.server.store.ProviderAllocations(c.ctx(), id)
		if fault.Is(err, fault.NotFound) {
			continue // it has gone since
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
