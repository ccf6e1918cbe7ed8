package candidate

import (
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// CountRemembering returns the number of candidates of a search that keeps at most this many failed states; 0 means
// the default.
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

// MostRemembered returns the largest number of failed states that a search kept at one time.
func MostRemembered(stop func() bool, s *index.Snapshot, ask resource.Ask, most int) (seen int) {
	var solver *TreeSolver
	solver = NewTreeSolver(match.Compile(s, ask), func() bool {
		for _, s := range solver.searches() {
			seen = max(seen, len(s.failed.states))
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
		switch section := section.(type) {
		case *search:
			section.failed.most = most
		case *components:
			section.states = most
		}
	}
}

// searches returns the searches of the sections.
func (s *TreeSolver) searches() (list []*search) {
	for _, section := range s.sections {
		switch section := section.(type) {
		case *search:
			list = append(list, section)
		case *components:
			list = append(list, section.parts...)
		}
	}
	return list
}
