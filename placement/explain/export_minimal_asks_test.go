package explain

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// MinimalAsks returns the ask of the minimal set of clauses, and that ask without each of its clauses in turn. few is
// how many trees are tried one by one before one of each shape is tried, most the work that may be done; 0 is the usual
// number. It returns no asks if there is a candidate.
func MinimalAsks(s *index.Snapshot, ask resource.Ask, few, most int) (
	whole resource.Ask, less []resource.Ask, rough bool) {
	full := match.Compile(s, ask)
	if full.Impossible != "" || len(full.Items) == 0 || s.Len() == 0 {
		return resource.Ask{}, nil, false
	}
	j := newJudge(newProblem(full), &work{})
	if !j.judgeAll() {
		return resource.Ask{}, nil, false
	}
	m, keep := newMinimizer(j)
	m.few, m.most = cmp.Or(few, m.few), cmp.Or(most, m.most)
	keep, rough = m.minimal(keep)
	for _, drop := range j.clauses.order() {
		if len(drop) == 1 && keep[drop[0]] {
			fewer := slices.Clone(keep)
			fewer[drop[0]] = false
			less = append(less, j.clauses.with(fewer))
		}
	}
	return j.clauses.with(keep), less, rough
}

// HelpAsks returns the ask without each of its clauses in turn, by the name of the clause, and which of them helps
// most. known is false if there is a candidate, or if that was not found.
func HelpAsks(s *index.Snapshot, ask resource.Ask, most int) (less map[string][]resource.Ask, best Help, known bool) {
	full := match.Compile(s, ask)
	if full.Impossible != "" || len(full.Items) == 0 || s.Len() == 0 {
		return nil, Help{}, false
	}
	j := newJudge(newProblem(full), &work{})
	if !j.judgeAll() {
		return nil, Help{}, false
	}
	m, _ := newMinimizer(j)
	m.most = cmp.Or(most, m.most)
	best, _, known = m.help()
	less = map[string][]resource.Ask{}
	for _, drop := range j.clauses.order() {
		if len(drop) == 1 && j.clauses.asks(drop[0]) {
			all := slices.Repeat(set{true}, j.clauses.count)
			name := j.clauses.name(drop[0])
			less[name] = append(less[name], j.clauses.with(j.clauses.without(all, drop)))
		}
	}
	return less, best, known
}
