package server

import (
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

func shuffle(n int, swap func(i, j int)) { rand.Shuffle(n, swap) }

// ask reads the query of a question for candidates, and the snapshot that answers it.
func (c *call) ask() (resource.Ask, *index.Snapshot, error) {
	values, err := c.query()
	if err != nil {
		return resource.Ask{}, nil, err
	}
	ask, err := api.ParseAsk(c.version, values)
	if err != nil {
		return resource.Ask{}, nil, err
	}
	if err := c.server.names.check(c.ctx(), ask.Groups, ask.RootRequired, ask.RootForbidden); err != nil {
		return resource.Ask{}, nil, err
	}
	snapshot, err := c.fresh()
	return ask, snapshot, err
}

// candidates is GET /allocation_candidates. A large answer is sent in parts while the rest is still being found, so what it takes of
// memory does not grow with it.
func (c *call) candidates() error {
	ask, snapshot, err := c.ask()
	if err != nil {
		return err
	}
	c.modified(time.Time{})
	began, found := c.server.now(), c.search(snapshot, ask)
	if c.server.opts.RandomizeCandidates {
		found = slices.Values(c.sample(found, ask.Limit))
	}
	w := newAnswerWriter(c, snapshot, ask)
	defer w.close()
	n, err := w.answer(found)
	if err == nil {
		err = c.ctx().Err() // the client has gone; the list may have been cut short
	}
	if err != nil {
		return err
	}
	took := c.server.now().Sub(began) - w.sending
	c.server.metrics.Candidates(took, n)
	c.server.log.Debug("candidates", "request_id", c.id, "found", n, "took", took, "providers", snapshot.Providers())
	if n == 0 {
		why, err := c.why(snapshot, ask)
		if err != nil {
			return err
		}
		if why.Reason != "" {
			c.w.Header().Set(api.ReasonHeader, oneLine(why.Reason))
		}
	}
	return w.end()
}

// why asks for an explanation.
func (c *call) why(snapshot *index.Snapshot, ask resource.Ask) (candidate.Explanation, error) {
	began := c.server.now()
	why := c.untilLeft().Explain(snapshot, ask)
	took := c.server.now().Sub(began)
	c.server.metrics.Explain(took)
	c.server.log.Debug("explained", "request_id", c.id, "reason", why.Reason, "took", took)
	return why, c.ctx().Err() // one that was given up is worth nothing
}

// untilLeft gives a search up when nobody waits for the answer any more.
func (c *call) untilLeft() candidate.Until { return func() bool { return c.ctx().Err() != nil } }

// search takes from the solver what the options and the microversion allow, and stops when nobody waits any more. What it gives is
// overwritten by the next.
func (c *call) search(snapshot *index.Snapshot, ask resource.Ask) iter.Seq[candidate.Placed] {
	all, nested := c.untilLeft().AllPlaced, c.version >= sinceNestedCandidates
	if c.server.opts.BreadthFirst {
		all = c.untilLeft().SpreadPlaced
	}
	limit, most := ask.Limit, max(c.server.opts.MaxCandidates, 0)
	if c.server.opts.RandomizeCandidates {
		limit = 0 // it takes from all
	}
	ask.Limit = most
	if nested && limit > 0 && (most == 0 || limit < most) {
		ask.Limit = limit
	}
	return func(yield func(candidate.Placed) bool) {
		seen, given := 0, 0
		for found := range all(snapshot, ask) {
			if seen++; seen%256 == 0 && c.ctx().Err() != nil {
				return
			}
			if !nested && !onePerTree(found) {
				continue
			}
			if given++; !yield(found) || given == limit {
				return
			}
		}
	}
}

// sample takes as many as limit by chance, all when it is 0, and leaves their order to chance.
func (c *call) sample(found iter.Seq[candidate.Placed], limit int) []candidate.Placed {
	var list []candidate.Placed
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

// onePerTree: before microversion 1.29 no two providers of a candidate are of one tree.
func onePerTree(found candidate.Placed) bool {
	spots := map[*index.Tree]int{}
	for _, t := range found.Takes {
		if len(t.Amounts) == 0 {
			continue
		}
		if spot, seen := spots[t.Tree]; seen && spot != t.Spot {
			return false
		}
		spots[t.Tree] = t.Spot
	}
	return true
}

// oneLine keeps a sentence within what a header may hold.
func oneLine(text string) string {
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
	ask, snapshot, err := c.ask()
	if err != nil {
		return err
	}
	why, err := c.why(snapshot, ask)
	if err != nil {
		return err
	}
	told := api.Explanation{Reason: why.Reason, Funnel: []api.ExplainStep{}, Minimal: append([]string{}, why.Minimal...), Nearest: []api.ExplainMiss{}}
	for _, step := range why.Funnel {
		told.Funnel = append(told.Funnel, api.ExplainStep(step))
	}
	for _, m := range why.Nearest {
		miss := api.ExplainMiss{Root: m.Root, Host: m.Host, Deficits: []api.ExplainDeficit{}}
		for _, d := range m.Deficits {
			miss.Deficits = append(miss.Deficits, api.ExplainDeficit{Class: d.Class, Cause: string(d.Cause), Asks: d.Asks, Free: d.Free, Of: d.Of})
		}
		told.Nearest = append(told.Nearest, miss)
	}
	return c.json(http.StatusOK, told)
}
