package candidate

import (
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// CountRemembering counts the candidates that a search finds which remembers at most this many failed states; 0 is the
// usual number.
func CountRemembering(s *index.Snapshot, ask resource.Ask, most int) int {
	solver := NewTreeSolver(match.Compile(s, ask), nil)
	solver.remember(most)
	n := 0
	for t := range s.Trees() {
		if !solver.Solve(t) {
			continue
		}
		e := newEnumeration(solver)
		for e.begin(); e.next(); {
			n++
		}
	}
	return n
}

// MostRemembered returns how many failed states a search has remembered at once when stop ended it.
func MostRemembered(stop func() bool, s *index.Snapshot, ask resource.Ask, most int) (seen int) {
	var solver *TreeSolver
	solver = NewTreeSolver(match.Compile(s, ask), func() bool {
		for _, section := range solver.sections {
			if s, searches := section.(*search); searches {
				seen = max(seen, len(s.failed.states))
			}
		}
		return stop()
	})
	solver.remember(most)
	for t := range s.Trees() {
		solver.Solve(t)
	}
	return seen
}

func (s *TreeSolver) remember(most int) {
	for _, section := range s.sections {
		if s, searches := section.(*search); searches {
			s.failed.most = most
		}
	}
}
