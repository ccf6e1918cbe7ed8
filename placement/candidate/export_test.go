package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// Contradiction gives the ask of the smallest contradiction, and that ask less each of its clauses in turn. It tries so few hosts one
// by one before it goes by shape.
func Contradiction(s *index.Snapshot, ask resource.Ask, few int) (whole resource.Ask, less []resource.Ask) {
	x := newExplainer(s, ask, nil)
	x.few = few
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

// Forgetful counts the candidates that a search finds which remembers no more than most states; 0 is as many as usual.
func Forgetful(s *index.Snapshot, ask resource.Ask, most int) int {
	h := newHost(compile(s, ask, nil))
	h.remember(most)
	n := 0
	for t := range s.Trees() {
		if !h.fill(t) {
			continue
		}
		w := newWalk(h)
		for w.begin(); w.next(); {
			n++
		}
	}
	return n
}

func (h *host) remember(most int) {
	for _, part := range h.parts {
		if s, searches := part.(*search); searches {
			s.failed.most = most
		}
	}
}

// MostRemembered is how many states a search has remembered at once, as far as it got.
func MostRemembered(stop Until, s *index.Snapshot, ask resource.Ask, most int) (seen int) {
	var h *host
	h = newHost(compile(s, ask, func() bool {
		for _, part := range h.parts {
			if s, searches := part.(*search); searches {
				seen = max(seen, len(s.failed.states))
			}
		}
		return stop()
	}))
	h.remember(most)
	for t := range s.Trees() {
		h.fill(t)
	}
	return seen
}
