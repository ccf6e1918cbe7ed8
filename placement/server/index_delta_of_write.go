package server

import (
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// indexDelta is the effect of a write on one provider. It is applied to the index without reading the tree again, if
// the index has the provider in the state that the write found and no trees were read since the write began. Otherwise
// the tree is read.
type indexDelta struct {
	root             provider.ID
	id               provider.ID
	parent           provider.ID        // of a new provider; empty: a root
	generationBefore int                // before the write; -1: the provider is new
	generationAfter  int                // after the write
	readsBefore      uint64             // liveIndex.reads when the write began
	change           func(r *index.Row) // makes the change, except for the generation
}

// applicable reports whether the delta can be applied to a snapshot.
func (p indexDelta) applicable(s *index.Snapshot, reads uint64) bool {
	if p.readsBefore != reads {
		return false
	}
	place, known := s.Find(p.id)
	if p.generationBefore >= 0 {
		return known && place.Tree.Root == p.root && place.Node().Generation == p.generationBefore
	}
	if known {
		return false
	}
	if p.parent == "" {
		return s.Lookup(p.root) == nil
	}
	over, there := s.Find(p.parent)
	return there && over.Tree.Root == p.root
}

// apply returns the snapshot with the delta.
func (p indexDelta) apply(s *index.Snapshot) *index.Snapshot {
	r, known := s.Row(p.id)
	if !known {
		r.Provider = provider.Provider{ID: p.id, Parent: p.parent, Root: p.root}
	}
	r.Generation = p.generationAfter
	p.change(&r)
	return s.WithRow(r)
}
