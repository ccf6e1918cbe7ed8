package server

import (
	"context"
	"maps"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
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

// applyDeltas applies the applicable deltas of a batch and adds the trees of the others to b.roots.
func (l *liveIndex) applyDeltas(s *index.Snapshot, b *batch) *index.Snapshot {
	reads := l.reads.Load()
	for _, p := range b.deltas {
		if p.applicable(s, reads) {
			s = p.apply(s)
		} else {
			b.roots[p.root] = true
		}
	}
	return s
}

// applyDelta applies the effect of a write to the index.
func (l *liveIndex) applyDelta(ctx context.Context, p indexDelta) error {
	return l.refreshAndWait(ctx, refreshRequest{deltas: []indexDelta{p}})
}

// applyDelta is like refresh, for a write that changed one provider. The caller leaves out the root, generationAfter
// and readsBefore.
func (c *call) applyDelta(change store.Change, p indexDelta) {
	if len(change.Roots) != 1 {
		c.refresh(change)
		return
	}
	p.root, p.generationAfter, p.readsBefore = change.Roots[0], change.Generation, c.reads
	c.logRefreshError(c.server.index.applyDelta(c.ctx(), p), change.Roots)
}

// patchInventories applies new inventories of a provider to the index. If the FLOAT column of MariaDB may round an
// allocation ratio, it reads the tree again instead.
func (c *call) patchInventories(change store.Change, generation int, all map[resource.Class]resource.Inventory) {
	for _, inv := range all {
		if eighths := inv.AllocationRatio * 8; eighths != float64(int(eighths)) || eighths > 1<<16 {
			c.refresh(change)
			return
		}
	}
	c.applyDelta(change, indexDelta{id: c.provider(), generationBefore: generation,
		change: func(r *index.Row) { r.Inventories = maps.Clone(all) }})
}
