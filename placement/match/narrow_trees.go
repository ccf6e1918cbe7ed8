package match

import (
	"iter"

	"github.com/openberth/berth/placement/index"
)

// Narrowing is a clause that the index answers without looking into any tree, and the trees that may meet it.
type Narrowing struct {
	ItemClass int         // whose clause it is; -1: it belongs to root_required
	Class     int         // the resource class needed, a position in Query.Classes; -1: it is not about a class
	Trait     int         // position in ItemClass.Required (one trait) or Query.RootRequired; -1: not about a trait
	Tree      *index.Tree // the one tree left, if the clause is in_tree; else nil
	Set       index.Set   // the trees left, if it is not
}

// Len returns how many trees the narrowing leaves.
func (n *Narrowing) Len() int {
	if n.Tree != nil {
		return 1
	}
	return n.Set.Len()
}

// All yields the trees that the narrowing leaves, in the order of the IDs of their roots.
func (n *Narrowing) All() iter.Seq[*index.Tree] {
	if n.Tree != nil {
		return func(yield func(*index.Tree) bool) { yield(n.Tree) }
	}
	return n.Set.All()
}

// Narrowings calls visit with each narrowing. It leaves out item classes for which skip returns true: those that a
// sharing provider serves in trees that do not meet the clause themselves.
func (q *Query) Narrowings(skip func(*ItemClass) bool, visit func(Narrowing)) {
	s := q.Snapshot
	for i := range q.ItemClasses {
		c := &q.ItemClasses[i]
		if skip(c) {
			continue
		}
		if c.InTree && len(c.Needs) > 0 {
			if t := s.Lookup(c.TreeRoot); t != nil {
				visit(Narrowing{ItemClass: i, Class: -1, Trait: -1, Tree: t})
			}
		}
		for _, n := range c.Needs {
			visit(Narrowing{ItemClass: i, Class: n.Class, Trait: -1, Set: s.WithClass(n.Number)})
		}
		for j, set := range c.Required {
			if len(set) == 1 {
				visit(Narrowing{ItemClass: i, Class: -1, Trait: j, Set: s.WithTrait(set[0])})
			}
		}
	}
	for j, trait := range q.RootRequired {
		visit(Narrowing{ItemClass: -1, Class: -1, Trait: j, Set: s.WithTrait(trait)})
	}
}

// Trees returns the trees that can have candidates according to the index, in the order of the IDs of their roots.
// It chooses the clause that leaves the fewest. many is how many they are.
func (q *Query) Trees() (trees iter.Seq[*index.Tree], many int) {
	var best Narrowing
	few := q.Snapshot.Len()
	found := false
	q.Narrowings((*ItemClass).servedByShared, func(n Narrowing) {
		if size := n.Len(); size < few {
			best, few, found = n, size, true
		}
	})
	if !found {
		return q.Snapshot.Trees(), few
	}
	return best.All(), few
}

func (c *ItemClass) servedByShared() bool { return c.Shareable }

// TreesWithRoom is like Trees, but it also excludes trees that have too little left of a resource class, and its order
// is any. It returns nil if more than most trees are left.
func (q *Query) TreesWithRoom(most int) iter.Seq[*index.Tree] {
	best, few := q.Trees()
	for i := range q.ItemClasses {
		c := &q.ItemClasses[i]
		if c.Shareable {
			continue
		}
		for _, n := range c.Needs {
			limit := min(few, most+1)
			if span := q.Snapshot.WithRoom(n.Number, n.Amount); span.Len(limit) < limit {
				best, few = span.All(), span.Len(limit)
			}
		}
	}
	if few > most {
		return nil
	}
	return best
}
