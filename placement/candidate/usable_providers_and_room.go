package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// treeSlots lists what each provider of one tree can serve of a query. It is filled with one tree after another.
type treeSlots struct {
	query     *match.Query
	tree      *index.Tree
	slots     []slot
	room      []int     // by slot and class: the largest amount that can be had
	domains   [][]int32 // by item class: the slots that can take an item of it when nothing else is placed, ascending
	connected []int     // positions in query.Shared: the sharing providers connected with the tree
	counted   []bool    // by slot: a buffer
}

// slot is a provider that can take an item. Providers of the tree come first, in tree order, then sharing providers of
// other trees.
type slot struct {
	index.Place
	foreign bool
}

func newTreeSlots(q *match.Query) *treeSlots {
	return &treeSlots{query: q, domains: make([][]int32, len(q.ItemClasses))}
}

// fill finds the slots and domains of a tree. It reports whether no domain is empty.
func (s *treeSlots) fill(t *index.Tree) bool {
	q := s.query
	s.tree, s.slots, s.room = t, s.slots[:0], s.room[:0]
	for c := range s.domains {
		s.domains[c] = s.domains[c][:0]
	}
	s.connected = q.ConnectedTo(t, s.connected[:0])
	missing := func(c index.ID) bool { return !t.Has(c) }
	if len(s.connected) == 0 && slices.ContainsFunc(q.Classes, missing) {
		return false
	}
	for i := range t.Nodes {
		at, entered := index.Place{Tree: t, At: i}, false
		for c := range q.ItemClasses {
			if class := &q.ItemClasses[c]; class.HasRoom(at.Node()) && class.Admits(t, at) {
				s.enter(c, slot{Place: at}, &entered)
			}
		}
	}
	for _, shared := range s.connected {
		entered := false
		for _, c := range q.Shared[shared].ItemClasses {
			if q.ItemClasses[c].Admits(t, q.Shared[shared].Place) {
				s.enter(c, slot{q.Shared[shared].Place, true}, &entered)
			}
		}
	}
	return !slices.ContainsFunc(s.domains, func(d []int32) bool { return len(d) == 0 })
}

// enter adds a slot to the domain of an item class, and to the slots if it is not entered yet.
func (s *treeSlots) enter(class int, at slot, entered *bool) {
	if !*entered {
		*entered = true
		s.slots = append(s.slots, at)
		for _, class := range s.query.Classes {
			room := 0
			if st := at.Node().Inventory(class); st != nil {
				room = max(st.Room, 0)
			}
			s.room = append(s.room, room)
		}
	}
	s.domains[class] = append(s.domains[class], int32(len(s.slots)-1))
}

// roomOf returns how much of a class can be had on a slot when nothing is placed.
func (s *treeSlots) roomOf(at, class int) int { return s.room[at*len(s.query.Classes)+class] }

// under reports whether a slot is in the subtree of another, or is the same.
func (s *treeSlots) under(top, at int32) bool {
	t, a := &s.slots[top], &s.slots[at]
	return t.Tree == a.Tree && t.At <= a.At && a.At < int(t.Node().End)
}

// tooFew reports whether a section has no solution because there are too few units of a class, or too few providers to
// isolate its groups on. Most infeasible sections are found by this, before a search is prepared.
func (s *treeSlots) tooFew(section *match.Section) bool {
	classes := s.query.ItemClasses
	isolated, free := 0, 0
	if s.query.Isolate {
		s.counted = zeros(s.counted, len(s.slots))
		for _, c := range section.ItemClasses {
			if !classes[c].Unsuffixed {
				isolated += len(classes[c].Items)
				s.countNew(c, func(int) { free++ })
			}
		}
	}
	return isolated > free || slices.ContainsFunc(section.Classes, func(class int) bool {
		asked, free := 0, 0
		s.counted = zeros(s.counted, len(s.slots))
		for _, c := range section.ItemClasses {
			if amount := classes[c].Amount(class); amount > 0 {
				asked += amount * len(classes[c].Items)
				s.countNew(c, func(at int) { free += s.roomOf(at, class) })
			}
		}
		return asked > free
	})
}

// countNew calls count for each slot of a domain that is not counted yet.
func (s *treeSlots) countNew(itemClass int, count func(at int)) {
	for _, at := range s.domains[itemClass] {
		if !s.counted[at] {
			s.counted[at] = true
			count(int(at))
		}
	}
}

// zeros returns a slice of n zero values, in the memory of s if it is large enough.
func zeros[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
