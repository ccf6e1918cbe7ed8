// Package index holds all provider trees with their usage in memory, as one immutable value: the Snapshot.
//
// The server keeps the newest snapshot behind one atomic pointer, so readers never wait. A writer that has committed
// to the database reads the changed trees again and swaps in the result of Replace. A snapshot may be stale: it
// proposes, and SQL decides.
//
// Classes, traits and aggregates have small dense numbers, and a provider is a Node with sorted lists of them, not
// with maps. A number is valid in a snapshot and in all snapshots derived from it; Build starts again.
//
// Inconsistent rows are accepted. A provider whose parent is not among the rows of its tree (the database was read
// during a change, or is damaged) is a node without a parent, not an error: it can be shown, and SQL decides about a
// claim on it. The same is true for a tree whose root row is missing. Of two rows with one ID the later one counts.
package index

import (
	"iter"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Snapshot holds all trees at one moment. It never changes; the zero value has no trees. Returned values are shared
// and must not be changed, except rows, which are built at each call.
type Snapshot struct {
	trees   sorted[*Tree]       // by the ID of the root
	owner   sorted[provider.ID] // provider → root of its tree
	sharing sorted[provider.ID] // sharing providers → root of their tree

	classes    numbers[resource.Class]
	traits     numbers[resource.Trait]
	aggregates numbers[resource.AggregateID]

	byClass, byTrait, byMember postings
	byShape, byRoom            sorted[struct{}]
}

// Place is the position of a provider in its tree.
type Place struct {
	Tree *Tree
	At   int // the position in Tree.Nodes
}

// Node returns the provider.
func (p Place) Node() *Node { return &p.Tree.Nodes[p.At] }

// Len returns the number of trees.
func (s *Snapshot) Len() int { return s.trees.size }

// Providers returns the number of providers.
func (s *Snapshot) Providers() int { return s.owner.size }

// Find returns the place of a provider.
func (s *Snapshot) Find(id provider.ID) (Place, bool) {
	t := s.Lookup(s.RootOf(id))
	if t == nil {
		return Place{}, false
	}
	at := t.Find(id)
	return Place{t, at}, at >= 0
}

// RootOf returns the root of the tree that contains a provider, or "" if there is no such provider.
func (s *Snapshot) RootOf(id provider.ID) provider.ID {
	root, _ := s.owner.get(id)
	return root
}

// Lookup returns the tree with this root, or nil.
func (s *Snapshot) Lookup(root provider.ID) *Tree {
	t, _ := s.trees.get(root)
	return t
}

// Roots iterates over the roots of all trees in the order of their IDs.
func (s *Snapshot) Roots() iter.Seq[provider.ID] {
	return func(yield func(provider.ID) bool) {
		for root := range s.trees.all() {
			if !yield(root) {
				return
			}
		}
	}
}

// Trees iterates over all trees in the order of the IDs of their roots.
func (s *Snapshot) Trees() iter.Seq[*Tree] {
	return func(yield func(*Tree) bool) {
		for _, t := range s.trees.all() {
			if !yield(t) {
				return
			}
		}
	}
}

// Class returns the number of a class, or Unknown.
func (s *Snapshot) Class(c resource.Class) ID { return s.classes.of(c) }

// Trait returns the number of a trait, or Unknown.
func (s *Snapshot) Trait(t resource.Trait) ID { return s.traits.of(t) }

// Aggregate returns the number of an aggregate, or Unknown.
func (s *Snapshot) Aggregate(a resource.AggregateID) ID { return s.aggregates.of(a) }
