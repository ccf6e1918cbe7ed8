package candidate

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/openberth/berth/placement/match"
)

// search decides a section in which counting alone does not: different amounts of one class, same_subtree, traits that
// the providers of the unsuffixed group must have between them. It tries slots, but never what the bound excludes,
// never one of two equal slots after the other has failed, and never a state twice.
type search struct {
	partial
	stop    *stopper
	order   []int   // the items, in the order of placing
	fixed   []bool  // by item
	witness []int32 // by item
	equals  []int32 // by slot: the first slot that is equal to it
	failed  failedStates
	careful bool // a branch has failed: from now on the bound and the failed states are consulted
	bound   bound

	completion *completion // decides the section slot by slot; nil if it cannot
	steps      int         // that are left of the budget, when a completion is to try next
	out        bool        // the budget is used up
}

func newSearch(q *match.Query, s *match.Section, stop *stopper) *search {
	n := len(q.Items)
	out := &search{partial: newPartial(q, s), stop: stop, fixed: make([]bool, n), witness: make([]int32, n),
		bound: newBound(q, s)}
	if completable(s) {
		out.completion = &completion{partial: &out.partial, stop: stop}
	}
	return out
}

func (s *search) reset(slots *treeSlots) {
	s.partial.clear(slots)
	for i := range s.fixed {
		s.fixed[i], s.witness[i] = false, -1
	}
	s.narrowDomains()
	s.sortItems()
	s.findEquals()
	s.bound.subtrees.reset(&s.partial)
}

// sortItems orders the items: clause by clause, those with the fewest slots first, then those that need most.
func (s *search) sortItems() {
	s.order = append(s.order[:0], s.section.Items...)
	slices.SortStableFunc(s.order, func(a, b int) int {
		ca, cb := s.classOf(a), s.classOf(b)
		if c := len(cb.Subtrees) - len(ca.Subtrees); c != 0 && len(ca.Subtrees)*len(cb.Subtrees) == 0 {
			return c
		}
		if c := slices.Compare(ca.Subtrees, cb.Subtrees); c != 0 {
			return c
		}
		if c := len(s.domain(a)) - len(s.domain(b)); c != 0 {
			return c
		}
		if c := cb.Weight() - ca.Weight(); c != 0 {
			return c
		}
		return s.query.Items[a].Class - s.query.Items[b].Class
	})
}

// findEquals finds the slots that are equal: in the same domains, and with the same traits as far as they matter
// between providers. With same_subtree no two slots are equal, because their places in the tree differ.
func (s *search) findEquals() {
	s.equals = s.equals[:0]
	for at := range int32(len(s.slots.slots)) {
		first := at
		for o := int32(0); o < at && len(s.section.Clauses) == 0; o++ {
			if s.equals[o] == o && s.same(o, at) {
				first = o
				break
			}
		}
		s.equals = append(s.equals, first)
	}
}

// same reports whether two slots are in the same domains and cover the same traits.
func (s *search) same(a, b int32) bool {
	for _, domain := range s.domains {
		_, inA := slices.BinarySearch(domain, a)
		_, inB := slices.BinarySearch(domain, b)
		if inA != inB {
			return false
		}
	}
	if s.section.Covers {
		for set := range s.query.Cover {
			if s.covers(a, set) != s.covers(b, set) {
				return false
			}
		}
	}
	return true
}

func (s *search) solve() bool {
	s.careful = false
	found := s.greedy() || s.bound.holds(&s.partial) && s.decide()
	s.failed.drop()
	return found
}

// searchCost is what a step of the search item by item costs, in steps of a completion.
const searchCost = 8

// firstBudget is how many steps the first attempt of a search or a completion may take.
const firstBudget = 256

// firstOrders divides a budget into orders of tryPackings.
const firstOrders = 32

// decide searches for a placement. Where a completion is possible, both methods take turns with growing budgets until
// one of them has decided, because each is slow where the other one is fast.
func (s *search) decide() bool {
	if s.completion != nil {
		s.completion.failed.drop()
	}
	for budget := firstBudget; ; budget *= 4 {
		s.steps, s.out = max(firstBudget, budget/searchCost), false
		if s.completion == nil {
			s.steps = math.MaxInt
		} else if s.tryPackings(budget/firstBudget, budget/firstOrders) {
			return true
		}
		if found := s.try(0); found || !s.out || s.stop.over {
			return found
		}
		decided, found := s.completion.run(budget)
		if found {
			copy(s.witness, s.place)
			s.completion.copyTo(s.witness)
		}
		if decided || s.stop.over {
			return found
		}
	}
}

// greedy places each item on the first slot that takes it, without going back. Where there is plenty, this is enough.
// It keeps the placement as the witness if it succeeds.
func (s *search) greedy() bool {
	placed, fits := 0, true
	for ; placed < len(s.order) && fits; placed++ {
		if i := s.order[placed]; !s.fixed[i] {
			fits = slices.ContainsFunc(s.domain(i), func(at int32) bool { return s.putPossible(i, at) })
		}
	}
	fits = fits && s.allCovered()
	if fits {
		copy(s.witness, s.place)
	}
	for _, i := range s.order[:placed] {
		if at := s.place[i]; at >= 0 && !s.fixed[i] {
			s.remove(i, at)
		}
	}
	return fits
}

// putPossible places an item if there is room and its clauses can still be met.
func (s *search) putPossible(i int, at int32) bool {
	if !s.put(i, at) {
		return false
	}
	if s.subtreesPossible(i) {
		return true
	}
	s.remove(i, at)
	return false
}

// try places the items from depth on and keeps the first complete placement as the witness. It consults the
// bound and the failed states only after it has failed for the first time.
func (s *search) try(depth int) bool {
	for depth < len(s.order) && s.fixed[s.order[depth]] {
		depth++
	}
	if depth == len(s.order) {
		if !s.allCovered() {
			return false
		}
		copy(s.witness, s.place)
		return true
	}
	if s.steps--; s.steps < 0 {
		s.out = true
		return false
	}
	if s.careful && (s.stop.step(searchCost) || !s.bound.holds(&s.partial) || s.failed.has(s.state(depth))) {
		return false
	}
	i := s.order[depth]
	for d, at := range s.domain(i) {
		if s.repeats(s.domain(i)[:d], at) || !s.put(i, at) {
			continue
		}
		done := s.subtreesPossible(i) && s.try(depth+1)
		s.remove(i, at)
		if done {
			return true
		}
		if s.out {
			return false
		}
	}
	s.careful = true
	s.failed.add(s.state(depth))
	return false
}

// repeats reports whether one of the slots already tried is equal to this one and has the same room left.
func (s *search) repeats(tried []int32, at int32) bool {
	return s.equals[at] != at && slices.ContainsFunc(tried, func(o int32) bool {
		return s.equals[o] == s.equals[at] && s.busy[o] == s.busy[at] && slices.Equal(s.rooms(o), s.rooms(at))
	})
}

// state encodes all that the rest of a search depends on: which items are left, what is left on the slots, the traits
// still missing, and where the items of unfinished clauses are. Equal slots may change places.
func (s *search) state(depth int) []byte {
	var slots []string
	for at := range int32(len(s.slots.slots)) {
		slot := binary.AppendUvarint(nil, uint64(s.equals[at]))
		for _, c := range s.section.Classes {
			slot = binary.AppendUvarint(slot, uint64(s.rooms(at)[c]))
		}
		if s.busy[at] {
			slot = append(slot, 1)
		}
		slots = append(slots, string(slot))
	}
	if len(s.section.Clauses) == 0 {
		slices.Sort(slots)
	}
	key := binary.AppendUvarint(nil, uint64(depth))
	for _, slot := range slots {
		key = append(binary.AppendUvarint(key, uint64(len(slot))), slot...)
	}
	for set := range s.query.Cover {
		if s.section.Covers && s.covered(set) {
			key = binary.AppendUvarint(key, uint64(set))
		}
	}
	for _, clause := range s.section.Clauses {
		items := s.query.Subtrees[clause]
		if slices.ContainsFunc(items, func(i int) bool { return s.place[i] < 0 }) {
			for _, i := range items {
				key = binary.AppendVarint(key, int64(s.place[i]))
			}
		}
	}
	return key
}

func (s *search) force(i, at int) bool {
	s.fixed[i] = true
	if int(s.witness[i]) == at || s.swap(i, int32(at)) {
		s.put(i, int32(at))
		return true
	}
	if !s.stop.stopped() && s.put(i, int32(at)) {
		if s.subtreesPossible(i) && s.solve() {
			return true
		}
		s.remove(i, int32(at))
	}
	s.fixed[i] = false
	return false
}

func (s *search) hint(i int) int { return int(s.witness[i]) }

// swap exchanges the item in the witness with another of its class at the slot. It reports whether there is one.
func (s *search) swap(i int, at int32) bool {
	for _, o := range s.classOf(i).Items {
		if !s.fixed[o] && s.witness[o] == at {
			s.witness[i], s.witness[o] = at, s.witness[i]
			return true
		}
	}
	return false
}

func (s *search) release(i, at int) {
	s.remove(i, int32(at))
	s.fixed[i] = false
}
