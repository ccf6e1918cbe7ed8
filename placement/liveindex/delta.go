package liveindex

import (
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// Delta is the effect of a write on one provider. It is applied to the index without reading the tree again, if
// the index has the provider in the state that the write found and no trees were read since the write began. Otherwise
// the tree is read.
type Delta struct {
	Root   provider.ID
	ID     provider.ID
	Parent provider.ID        // of a new provider; empty: a root
	Before int                // the generation before the write; -1: the provider is new
	After  int                // the generation after the write
	Reads  uint64             // Index.Reads when the write began
	Change func(r *index.Row) // makes the change, except for the generation
}

// applicable reports whether the delta can be applied to a snapshot.
func (p Delta) applicable(s *index.Snapshot, reads uint64) bool {
	if p.Reads != reads {
		return false
	}
	place, known := s.Find(p.ID)
	if p.Before >= 0 {
		return known && place.Tree.Root == p.Root && place.Node().Generation == p.Before
	}
	if known {
		return false
	}
	if p.Parent == "" {
		return s.Lookup(p.Root) == nil
	}
	over, there := s.Find(p.Parent)
	return there && over.Tree.Root == p.Root
}

// apply returns the snapshot with the delta.
func (p Delta) apply(s *index.Snapshot) *index.Snapshot {
	r, known := s.Row(p.ID)
	if !known {
		r.Provider = provider.Provider{ID: p.ID, Parent: p.Parent, Root: p.Root}
	}
	r.Generation = p.After
	p.Change(&r)
	return s.WithRow(r)
}
