package index

import (
	"iter"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
