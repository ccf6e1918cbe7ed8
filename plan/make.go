package plan

import (
	"slices"

	"github.com/openberth/berth/numa"
)

// Make returns a plan for a guest, or why there is none, or that this was not decided within MaxWork. Of several plans
// it returns one with as many devices of the first rank as possible, then of the second; of these the first one in the
// order of numa.Options.
func Make(h Host, g Guest) (Plan, *Refusal) {
	p, _, refusal := MakeWithin(MaxWork, h, g)
	return p, refusal
}

// MakeWithin is Make with a limit of the work, and returns the work done. If the limit is reached, the plan is the best
// one found so far; without one the refusal is undecided.
func MakeWithin(limit int, h Host, g Guest) (p Plan, work int, refusal *Refusal) {
	left := &budget{limit}
	p, refusal = makeWithin(left, h, g)
	return p, min(limit-left.left, limit), refusal
}

func makeWithin(left *budget, h Host, g Guest) (Plan, *Refusal) {
	var s *search
	if len(g.Nodes) > 0 || len(g.Cells) == 0 {
		s = newSearch(left, h, g)
		s.try(g.Nodes)
	} else {
		devices := slices.ContainsFunc(g.Requests, func(r Request) bool { return r.Count > 0 })
		cells, fits, refusal := numa.Options(h.Room, g.Cells, devices)
		if refusal.Reason != "" {
			return Plan{}, &Refusal{Cells: refusal}
		}
		s = newSearch(left, h, g)
		s.tryNodes(cells, fits)
	}
	switch {
	case s.best == nil && left.spent():
		return Plan{}, &Refusal{Undecided: true, Set: -1}
	case s.best == nil:
		return Plan{}, s.refusal()
	}
	return s.plan(), nil
}

func newSearch(left *budget, h Host, g Guest) *search {
	s := &search{host: h, guest: g, budget: left, limit: -1, unequal: -1}
	s.mergeRequests()
	s.findKinds()
	s.findValues()
	most := 0
	for _, k := range s.kinds {
		s.room = append(s.room, len(k.list))
		most = max(most, k.later)
	}
	for _, r := range s.requests {
		s.total += r.Count
	}
	s.scale = s.total*most + 1
	return s
}

// plan returns the best solution.
func (s *search) plan() Plan {
	p := Plan{Placed: s.placed, Devices: make([][]int, len(s.guest.Requests)), Values: s.valuesOfSets()}
	used, given := make([]int, len(s.kinds)), make([][]int, len(s.requests))
	for g, of := range s.best.groups {
		policy := s.requests[of.request].Policy
		for k, n := range s.best.use[g] {
			if n > 0 {
				given[of.request] = append(given[of.request], s.kinds[k].list[used[k]:used[k]+n]...)
				used[k] += n
				p.Far += n * s.kinds[k].rank(policy, s.nodes)
				p.Later += n * s.kinds[k].later
			}
		}
	}
	for i, r := range s.requests {
		for _, of := range r.of {
			count := s.guest.Requests[of].Count
			p.Devices[of], given[i] = given[i][:count:count], given[i][count:]
		}
	}
	return p
}

// valuesOfSets returns the values in the best solution.
func (s *search) valuesOfSets() [][]string {
	if len(s.guest.Sets) == 0 {
		return nil
	}
	out := make([][]string, len(s.guest.Sets))
	for _, g := range s.best.groups {
		of := s.requests[g.request]
		if len(of.sets) == 0 || s.sets[of.sets[0]].Requests[0] != g.request {
			continue
		}
		set := s.sets[of.sets[0]]
		out[set.index] = append(out[set.index], slices.Repeat([]string{g.value}, g.count*set.Times/of.Count)...)
	}
	return out
}

// refusal returns the nearest miss. If the devices are too few wherever the guest is, it names no nodes.
func (s *search) refusal() *Refusal {
	of := s
	if len(s.guest.Cells) > 0 || len(s.guest.Nodes) > 0 {
		if nowhere := s.nowhere(); nowhere != nil {
			of = nowhere
		}
	}
	out := &Refusal{Wanted: s.total, Served: s.total - of.nearest.lacking(), Nodes: of.missed, Set: -1}
	if r := slices.IndexFunc(of.nearest.left, func(n int) bool { return n > 0 }); r >= 0 {
		out.Request = s.requests[r].of[0]
	} else if of.unequal >= 0 {
		out.Set = s.sets[of.unequal].index
		out.Request = s.requests[s.sets[of.unequal].Requests[0]].of[0]
	}
	return out
}
