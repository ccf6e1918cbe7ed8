package index

import "iter"

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
