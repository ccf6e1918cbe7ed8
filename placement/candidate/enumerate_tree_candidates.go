package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
)

// enumeration goes through the candidates of one tree; the last item changes fastest. It never enters a branch without
// a candidate: an item is placed only where the section solvers can still place the others.
type enumeration struct {
	slots   *treeSlots
	solvers []sectionSolver // by item
	at      []int           // by item: the position in its domain
	first   []int           // by item: the position that is tried first, or -1: that of the witness
	turn    []int           // by item: how many positions were tried
	depth   int             // how many items are placed
	started bool
	takes   []Take
	stop    *stopper
	of      []int // by item: its section
	deepest int   // the item for which the last next has searched last
}

func newEnumeration(s *TreeSolver) *enumeration {
	items := len(s.query.Items)
	e := &enumeration{slots: s.treeSlots, at: make([]int, items), first: make([]int, items), turn: make([]int, items),
		solvers: make([]sectionSolver, items),
		stop:    s.stop, of: make([]int, items)}
	for i := range s.sections {
		for _, item := range s.query.Sections[i].Items {
			e.solvers[item], e.of[item] = s.sections[i], i
		}
	}
	return e
}

// begin starts before the first candidate of a tree that was just solved.
func (e *enumeration) begin() { e.depth, e.started = 0, false }

// section returns the section that was being searched when the search stopped.
func (e *enumeration) section() int { return e.of[e.deepest] }

// next goes to the next placement of all items. It reports whether there is one.
func (e *enumeration) next() bool {
	if e.started {
		e.back()
	} else {
		e.started = true
		e.enter(0)
	}
	for e.depth >= 0 {
		if !e.advance() {
			e.back()
			continue
		}
		e.depth++
		if e.depth == len(e.at) {
			return true
		}
		e.enter(e.depth)
	}
	return false
}

// enter begins with the positions of an item. The first one is that of the solver's witness, so that the first
// candidate of a tree costs no more than the solution.
func (e *enumeration) enter(i int) {
	e.turn[i], e.first[i] = 0, -1
	if at := e.solvers[i].hint(i); at >= 0 {
		e.first[i] = slices.Index(e.slots.domains[e.slots.query.Items[i].Class], int32(at))
	}
}

// turnTo goes to the next position of an item. It reports whether there is one.
func (e *enumeration) turnTo(i, positions int) bool {
	first := e.first[i]
	n := e.turn[i]
	e.turn[i]++
	switch {
	case n >= positions:
		return false
	case first < 0 || n > first:
		e.at[i] = n
	case n == 0:
		e.at[i] = first
	default:
		e.at[i] = n - 1
	}
	return true
}

// advance places the item at this depth on the next slot that leaves a solution. It reports whether there is one.
func (e *enumeration) advance() bool {
	i := e.depth
	q := e.slots.query
	domain := e.slots.domains[q.Items[i].Class]
	for e.turnTo(i, len(domain)) {
		at := domain[e.at[i]]
		if e.stop.over {
			return false
		}
		e.deepest = i
		if (!q.Ask.Flat || e.onlyProvider(at)) && e.solvers[i].force(i, int(at)) {
			return true
		}
	}
	return false
}

// onlyProvider reports whether the next item can be placed on a slot under Ask.Flat: all placed items that take
// something from the tree of the slot are on the same provider.
func (e *enumeration) onlyProvider(at int32) bool {
	items, slots := e.slots.query.Items, e.slots.slots
	if len(items[e.depth].Amounts) == 0 {
		return true
	}
	for i := range e.depth {
		if o := e.slotOf(i); o != int(at) && len(items[i].Amounts) > 0 && slots[o].Tree == slots[at].Tree {
			return false
		}
	}
	return true
}

// back removes the last item.
func (e *enumeration) back() {
	if e.depth--; e.depth >= 0 {
		e.solvers[e.depth].release(e.depth, e.slotOf(e.depth))
	}
}

// slotOf returns the slot of a placed item.
func (e *enumeration) slotOf(i int) int {
	return int(e.slots.domains[e.slots.query.Items[i].Class][e.at[i]])
}

// isFirst reports whether this tree is the first that has the candidate. A candidate of sharing providers alone can be
// had from several trees, and belongs to the first of them.
func (e *enumeration) isFirst() bool {
	q := e.slots.query
	var lead *slot
	for i := range q.Items {
		s := &e.slots.slots[e.slotOf(i)]
		if !s.Node().Shares() {
			return true
		}
		if lead == nil || s.foreign {
			lead = s
		}
	}
	earlier := func(t *index.Tree) bool {
		return t.Root < e.slots.tree.Root && q.AdmitsRoot(t) && e.possibleFrom(t)
	}
	if earlier(lead.Tree) {
		return false
	}
	for _, a := range lead.Node().Aggregates {
		for t := range q.Snapshot.WithAggregate(a).All() {
			if t.Root >= e.slots.tree.Root {
				break
			}
			if earlier(t) {
				return false
			}
		}
	}
	return true
}

// possibleFrom reports whether another tree has the candidate, which is of sharing providers alone.
func (e *enumeration) possibleFrom(t *index.Tree) bool {
	q := e.slots.query
	for i := range q.Items {
		place := e.slots.slots[e.slotOf(i)].Place
		c := &q.ItemClasses[q.Items[i].Class]
		if place.Tree != t && !match.Connected(place.Node(), t) || c.Unsuffixed && !c.Admits(t, place) {
			return false
		}
	}
	return true
}

// candidate returns the current placement. It is overwritten by the next call.
func (e *enumeration) candidate() Candidate {
	items := e.slots.query.Items
	e.takes = e.takes[:0]
	for i := range items {
		at := e.slotOf(i)
		e.takes = append(e.takes, Take{e.slots.slots[at].Place, at, i, items[i].Suffix, items[i].Amounts})
	}
	return Candidate{e.slots.tree.Root, e.takes}
}
