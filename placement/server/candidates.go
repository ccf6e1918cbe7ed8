package server

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
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

// candidates is GET /allocation_candidates.
func (c *call) candidates() error {
	ask, snapshot, err := c.ask()
	if err != nil {
		return err
	}
	list := c.find(snapshot, ask)
	if err := c.ctx().Err(); err != nil {
		return err // the client has gone; the list may have been cut short
	}
	if len(list) == 0 {
		if reason := candidate.Explain(snapshot, ask).Reason; reason != "" {
			c.w.Header().Set(api.ReasonHeader, oneLine(reason))
		}
	}
	c.modified(time.Time{})
	w := answerWriter{version: c.version, snapshot: snapshot, ask: ask}
	c.send(http.StatusOK, w.answer(list))
	return nil
}

// find takes from the solver what the options and the microversion allow.
func (c *call) find(snapshot *index.Snapshot, ask resource.Ask) []candidate.Candidate {
	limit := ask.Limit
	enough := c.server.opts.MaxCandidates
	nested := c.version >= sinceNestedCandidates
	if limit > 0 && nested && !c.server.opts.RandomizeCandidates {
		enough = min(enough, limit)
	} else {
		ask.Limit = 0 // what is cut is cut below
	}
	search := candidate.All
	if c.server.opts.BreadthFirst {
		search = candidate.Spread
	}
	var list []candidate.Candidate
	for found := range search(snapshot, ask) {
		if nested || onePerTree(snapshot, found) {
			list = append(list, found)
		}
		if len(list) >= enough || len(list)%1024 == 0 && c.ctx().Err() != nil {
			break
		}
	}
	if c.server.opts.RandomizeCandidates {
		c.server.shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	if limit > 0 && limit < len(list) {
		list = list[:limit]
	}
	return list
}

// onePerTree: before microversion 1.29 no two providers of a candidate are of one tree.
func onePerTree(snapshot *index.Snapshot, found candidate.Candidate) bool {
	seen := map[provider.ID]bool{}
	for id := range found.Allocation {
		root := snapshot.RootOf(id)
		if seen[root] {
			return false
		}
		seen[root] = true
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
	why := candidate.Explain(snapshot, ask)
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

// involved lists the providers that the answer has to tell of, by ID: all of the trees that candidates take something from.
func involved(snapshot *index.Snapshot, list []candidate.Candidate, nested bool) []index.Row {
	used, roots := map[provider.ID]bool{}, map[provider.ID]bool{}
	for _, found := range list {
		for id := range found.Allocation {
			if !used[id] {
				used[id] = true
				roots[snapshot.RootOf(id)] = true
			}
		}
	}
	var rows []index.Row
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		for _, row := range snapshot.Tree(root) {
			if nested || used[row.ID] {
				rows = append(rows, row)
			}
		}
	}
	return rows
}
