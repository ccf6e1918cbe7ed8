package candidate

import (
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// TreeSolver decides for one tree after another whether a query has a candidate there.
type TreeSolver struct {
	*treeSlots
	stop     *stopper
	sections []sectionSolver // as in the query
	failed   int
}

// sectionSolver decides about one section on one tree. It keeps a witness, a way to place all its items, from a solve
// to the next that returns true.
type sectionSolver interface {
	reset(slots *treeSlots)  // starts afresh on a tree
	solve() bool             // finds a first witness
	force(item, at int) bool // fixes an item on a slot of its domain if that leaves a solution
	release(item, at int)    // undoes force; the last one first
	hint(item int) int       // the slot of the item in the witness, or -1 if another one costs no more
}

// NewTreeSolver returns a solver for a query. It stops soon after stop has returned true; nil means never.
func NewTreeSolver(q *match.Query, stop func() bool) *TreeSolver {
	return newTreeSolver(q, &stopper{stop: stop})
}

func newTreeSolver(q *match.Query, stop *stopper) *TreeSolver {
	s := &TreeSolver{treeSlots: newTreeSlots(q), stop: stop, failed: -1}
	for i := range q.Sections {
		switch {
		case q.Sections[i].Exact:
			s.sections = append(s.sections, newFlow(q, &q.Sections[i]))
		case completable(&q.Sections[i]):
			s.sections = append(s.sections, newComponents(q, &q.Sections[i], stop))
		default:
			s.sections = append(s.sections, newSearch(q, &q.Sections[i], stop))
		}
	}
	return s
}

// Solve reports whether there is a candidate on a tree. A query without items has one wherever root_required is met.
// False means nothing if stop has returned true.
func (s *TreeSolver) Solve(t *index.Tree) bool {
	s.failed = -1
	if s.query.Impossible != "" || !s.query.AdmitsRoot(t) || !s.fill(t) {
		return false
	}
	for i, section := range s.sections {
		if !s.query.Sections[i].Exact && s.tooFew(&s.query.Sections[i]) {
			s.failed = i
			return false
		}
		section.reset(s.treeSlots)
		if !section.solve() {
			s.failed = i
			return false
		}
	}
	return true
}

// FailedSection returns the position of the section for which the last Solve found no solution although each of its
// items has a provider with room; -1 if Solve returned true, or false for another reason.
func (s *TreeSolver) FailedSection() int { return s.failed }
