package plan

import (
	"slices"
)

// try looks for devices for a guest on nodes, and keeps and reports a result that is the best.
func (s *search) try(nodes []int) (better bool) {
	costs, groups := s.costs(nodes), s.all()
	relaxed := s.solve(groups, costs)
	if relaxed.lacking() > 0 {
		s.miss(relaxed, nodes, -1)
		return false
	}
	if s.limit >= 0 && relaxed.cost >= s.limit {
		return false
	}
	found := &solution{groups, relaxed}
	if len(s.sets) > 0 {
		found = s.assign(costs, s.limit, relaxed.cost)
	}
	if found != nil {
		s.best, s.nodes, s.limit = found, nodes, found.cost
	} else if s.limit < 0 && (s.misses == 0 || s.nearest.lacking() > 0) {
		s.miss(relaxed, nodes, s.firstUnequal(costs))
	}
	return found != nil
}

// firstUnequal returns a set that cannot agree even alone, or the last one.
func (s *search) firstUnequal(costs [][]int) (n int) {
	for n = range s.sets {
		alone := *s
		alone.sets = s.sets[n : n+1]
		alone.requests = slices.Clone(s.requests)
		for r := range alone.requests {
			alone.requests[r].sets = nil
		}
		for _, r := range alone.sets[0].Requests {
			alone.requests[r].sets = []int{0}
		}
		if alone.assign(costs, -1, 0) == nil {
			return n
		}
	}
	return n
}

// miss keeps the nearest miss: the nodes where most devices are.
func (s *search) miss(a assignment, nodes []int, set int) {
	if s.misses++; s.misses == 1 || a.lacking() < s.nearest.lacking() {
		s.nearest, s.missed, s.unequal = a, nodes, set
	}
}

// nowhere returns the search of the devices for the same guest without nodes, if it has no result either.
func (s *search) nowhere() *search {
	other := *s
	other.budget = reasons()
	other.misses, other.missed, other.limit = 0, nil, -1
	if other.try(nil) || other.spent() {
		return nil
	}
	return &other
}
