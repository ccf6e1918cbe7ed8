package index

import (
	"iter"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Set is a set of trees, iterated in the order of the IDs of their roots.
type Set struct {
	snapshot *Snapshot
	roots    sorted[struct{}]
}

// Len returns the number of trees in the set.
func (s Set) Len() int { return s.roots.size }

// All iterates over the trees of the set.
func (s Set) All() iter.Seq[*Tree] {
	return func(yield func(*Tree) bool) {
		for root := range s.roots.all() {
			if !yield(s.snapshot.Lookup(root)) {
				return
			}
		}
	}
}

// WithClass returns the trees in which some provider has inventory of the class.
func (s *Snapshot) WithClass(class ID) Set { return Set{s, s.byClass.of(class)} }

// WithTrait returns the trees in which some provider has the trait.
func (s *Snapshot) WithTrait(trait ID) Set { return Set{s, s.byTrait.of(trait)} }

// WithAggregate returns the trees in which some provider is a member of the aggregate.
func (s *Snapshot) WithAggregate(aggregate ID) Set { return Set{s, s.byMember.of(aggregate)} }

// Members returns the providers in an aggregate, tree by tree.
func (s *Snapshot) Members(aggregate resource.AggregateID) []provider.ID {
	var out []provider.ID
	no := s.Aggregate(aggregate)
	for t := range s.WithAggregate(no).All() {
		for i := range t.Nodes {
			if t.Nodes[i].In(no) {
				out = append(out, t.Nodes[i].ID)
			}
		}
	}
	return out
}

// SharingProviders iterates over the sharing providers (with the Sharing trait, and a member of an aggregate) in the
// order of their IDs.
func (s *Snapshot) SharingProviders() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for id := range s.sharing.all() {
			if p, ok := s.Find(id); ok && !yield(p) {
				return
			}
		}
	}
}

// SharingMembers iterates over the sharing providers that are members of one aggregate.
func (s *Snapshot) SharingMembers(aggregate ID) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for p := range s.SharingProviders() {
			if p.Node().In(aggregate) && !yield(p) {
				return
			}
		}
	}
}
