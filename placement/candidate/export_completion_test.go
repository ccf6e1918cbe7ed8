package candidate

import (
	"fmt"
	"math"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// CompareMethods decides an ask on each tree with a completion and with the search item by item, and returns how often
// they found that there is a placement. It returns an error if they disagree, or if the placement of the completion is
// not valid.
func CompareMethods(s *index.Snapshot, ask resource.Ask) (found, not int, err error) {
	solver := NewTreeSolver(match.Compile(s, ask), nil)
	for t := range s.Trees() {
		if solver.query.Impossible != "" || !solver.fill(t) {
			continue
		}
		for _, section := range solver.sections {
			section.reset(solver.treeSlots)
		}
		for _, p := range solver.searches() {
			if p.completion == nil {
				continue
			}
			p.completion.failed.drop()
			_, complete := p.completion.run(math.MaxInt)
			if complete {
				if err := p.check(); err != nil {
					return 0, 0, err
				}
				found++
			} else {
				not++
			}
			p.steps, p.out, p.careful = math.MaxInt, false, false
			if searched := p.try(0); searched != complete {
				return 0, 0, fmt.Errorf("the completion returns %v, the search %v", complete, searched)
			}
		}
	}
	return found, not, nil
}

// check returns an error if the placement that the completion has found does not fit.
func (s *search) check() error {
	for i := range s.witness {
		s.witness[i] = -1
	}
	s.completion.copyTo(s.witness)
	defer func() {
		for _, i := range s.section.Items {
			if at := s.place[i]; at >= 0 {
				s.remove(i, at)
			}
		}
	}()
	for _, i := range s.section.Items {
		if s.witness[i] < 0 || !s.put(i, s.witness[i]) {
			return fmt.Errorf("item %d does not fit on slot %d", i, s.witness[i])
		}
	}
	return nil
}
