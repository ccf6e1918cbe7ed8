package candidate

import (
	"iter"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// Options changes how Find searches.
type Options struct {
	// Stop is called repeatedly, also while nothing is found; nil means never. Find ends soon after it has returned
	// true. Candidates yielded before are valid, but there may be more.
	Stop func() bool
	// BreadthFirst yields one candidate of each tree, then a second of each, and so on. Find then keeps the state of
	// every tree it has begun.
	BreadthFirst bool
	// First is how many trees a breadth-first search skips at first: it begins after them, and searches them at the
	// end of each round. It is taken modulo the number of trees. Searches with random values of First and a small limit
	// spread over all trees.
	First int
	// TreeSteps limits the work on one tree: after this many steps without a candidate Find gives the tree up and goes on
	// with the next one. A step takes up to a microsecond. 0 means no limit.
	TreeSteps int
	// Undecided is called for each tree that Find gives up, and for the one at which Stop ends it: the tree may have
	// more candidates than were yielded. groups are the suffixes of the groups that were being placed.
	Undecided func(t *index.Tree, groups []string)
}

// Find yields every candidate for the ask once, at most ask.Limit (0: no limit). The order is tree by tree, by the ID
// of the root, unless Options.BreadthFirst is set. Nothing is computed before it is needed. A candidate is valid until
// the next one: use Clone to keep it.
func Find(s *index.Snapshot, ask resource.Ask, o Options) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		q := match.Compile(s, ask)
		if q.Impossible != "" || len(q.Items) == 0 {
			return
		}
		f := finder{query: q, stop: &stopper{stop: o.Stop, budget: o.TreeSteps}, yield: yield,
			undecided: o.Undecided, infeasibleShapes: map[index.Shape]bool{}, undecidedShapes: map[index.Shape]int{}}
		if o.BreadthFirst {
			f.breadthFirst(o.First)
		} else {
			f.treeByTree()
		}
	}
}

// finder is one run of Find.
type finder struct {
	query            *match.Query
	stop             *stopper
	yield            func(Candidate) bool
	yielded          int
	undecided        func(*index.Tree, []string)
	infeasibleShapes map[index.Shape]bool // trees of these shapes have no candidate
	undecidedShapes  map[index.Shape]int  // the section for which a tree of the shape was given up
}

// give yields the current candidate of an enumeration. It reports whether more are wanted.
func (f *finder) give(e *enumeration) bool {
	f.yielded++
	return f.yield(e.candidate()) && f.yielded != f.query.Ask.Limit
}

// solve reports whether there is a candidate on a tree. Of trees without candidates, and of those that are given up,
// one of each shape is solved.
func (f *finder) solve(s *TreeSolver, t *index.Tree) bool {
	named := f.query.NamesTree(t)
	if !named && f.infeasibleShapes[t.Shape] {
		return false
	}
	if section, known := f.undecidedShapes[t.Shape]; known && !named {
		f.reportUndecided(t, section)
		return false
	}
	if s.Solve(t) {
		return true
	}
	switch {
	case f.stop.over:
		f.reportUndecided(t, s.failed)
		if !named {
			f.undecidedShapes[t.Shape] = s.failed
		}
	case !named:
		f.infeasibleShapes[t.Shape] = true
	}
	return false
}

// treeByTree yields the candidates of one tree after another.
func (f *finder) treeByTree() {
	solver := newTreeSolver(f.query, f.stop)
	e := newEnumeration(solver)
	memos := newMemos(f.query)
	trees, _ := f.query.Trees()
	for t := range trees {
		if f.stop.begin(); f.stop.stopped() {
			return
		}
		if known := memos.of(t); known != nil {
			if !memos.replay(known, t, f.give) {
				return
			}
			continue
		}
		if !f.solve(solver, t) {
			continue
		}
		memos.begin(t)
		if !f.enumerate(e, memos) {
			return
		}
		if f.stop.over {
			f.reportUndecided(t, e.section())
		} else {
			memos.end(solver.treeSlots)
		}
	}
}

// enumerate yields the candidates of one tree. It reports whether Find continues.
func (f *finder) enumerate(e *enumeration, memos *memos) bool {
	e.begin()
	for f.stop.begin(); e.next(); f.stop.begin() {
		if !e.isFirst() {
			if f.stop.stopped() {
				break
			}
			continue
		}
		memos.record(e)
		if !f.give(e) {
			return false
		}
	}
	return true
}

// reportUndecided reports a tree on which the search has ended before it was complete.
func (f *finder) reportUndecided(t *index.Tree, section int) {
	if f.undecided == nil {
		return
	}
	var groups []string
	for i := range f.query.Items {
		of := section < 0 || slices.Contains(f.query.Sections[section].Items, i)
		if suffix := f.query.Items[i].Suffix; of && !slices.Contains(groups, suffix) {
			groups = append(groups, suffix)
		}
	}
	f.undecided(t, groups)
}

// breadthFirst yields one candidate of each tree, then goes round the trees that have more. It begins after the first
// skipped trees.
func (f *finder) breadthFirst(skipped int) {
	var waiting []*enumeration
	for t := range f.treesAfter(skipped) {
		if f.stop.begin(); f.stop.stopped() {
			return
		}
		solver := newTreeSolver(f.query, f.stop)
		if !f.solve(solver, t) {
			continue
		}
		e := newEnumeration(solver)
		e.begin()
		more, wanted := f.giveNext(e)
		if !wanted {
			return
		}
		if more {
			waiting = append(waiting, e)
		}
	}
	for len(waiting) > 0 {
		left := waiting[:0]
		for _, e := range waiting {
			more, wanted := f.giveNext(e)
			if !wanted {
				return
			}
			if more {
				left = append(left, e)
			}
		}
		waiting = left
	}
}

// treesAfter yields the trees of the query in their order, those after the first n before the first n.
func (f *finder) treesAfter(n int) iter.Seq[*index.Tree] {
	trees, many := f.query.Trees()
	if many > 0 {
		n %= many
	}
	return func(yield func(*index.Tree) bool) {
		at := 0
		for t := range trees {
			if at++; at > n && !yield(t) {
				return
			}
		}
		at = 0
		for t := range trees {
			if at++; at > n || !yield(t) {
				return
			}
		}
	}
}

// giveNext yields the next candidate of a tree. more reports whether there was one, wanted whether Find continues.
func (f *finder) giveNext(e *enumeration) (more, wanted bool) {
	for f.stop.begin(); e.next(); f.stop.begin() {
		if e.isFirst() {
			return true, f.give(e)
		}
		if f.stop.stopped() {
			break
		}
	}
	if f.stop.over {
		f.reportUndecided(e.slots.tree, e.section())
	}
	f.stop.begin()
	return false, !f.stop.stopped()
}
