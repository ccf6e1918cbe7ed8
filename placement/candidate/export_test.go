package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// Contradiction gives the ask of the smallest contradiction, and that ask less each of its clauses in turn.
func Contradiction(s *index.Snapshot, ask resource.Ask) (whole resource.Ask, less []resource.Ask) {
	x := newExplainer(s, ask, nil)
	if x.plan.nothing != "" || s.Len() == 0 || !x.pass() {
		return resource.Ask{}, nil
	}
	keep, _ := x.contradiction()
	for _, at := range x.pieces.order() {
		if keep[at] {
			fewer := slices.Clone(keep)
			fewer[at] = false
			one, _ := x.pieces.with(fewer)
			less = append(less, one)
		}
	}
	whole, _ = x.pieces.with(keep)
	return whole, less
}

// Possible says whether some host meets an ask; also one without groups, which has no candidates.
func Possible(s *index.Snapshot, ask resource.Ask) bool {
	h := newHost(compile(s, ask, nil))
	for t := range s.Trees() {
		if h.fill(t) {
			return true
		}
	}
	return false
}
