package server

import (
	"context"
	"maps"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// indexDelta is what a write did to one provider, so that the index can do the same without reading the tree again: but only if
// the index has the provider as the write found it, and nobody has read trees since the write began. Else the tree is read.
type indexDelta struct {
	root             provider.ID
	id               provider.ID
	parent           provider.ID        // of a new provider; empty: it is a root
	generationBefore int                // the generation that the write found; -1: the provider is new
	generationAfter  int                // the one it left
	readsBefore      uint64             // live.reads when the write began
	change           func(r *index.Row) // what it did besides
}

// applicable says whether a patch can be applied.
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

// apply gives the snapshot after the patch.
func (p indexDelta) apply(s *index.Snapshot) *index.Snapshot {
	r, known := s.Row(p.id)
	if !known {
		r.Provider = provider.Provider{ID: p.id, Parent: p.parent, Root: p.root}
	}
	r.Generation = p.generationAfter
	p.change(&r)
	return s.Amend(r)
}

// applyDeltas applies what can be applied of a batch, and adds the trees of the rest to those that it reads.
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

// applyDelta tells the index what a write did.
func (l *liveIndex) applyDelta(ctx context.Context, p indexDelta) error {
	return l.refreshAndWait(ctx, refreshRequest{deltas: []indexDelta{p}})
}

// applyDelta is refresh for a write that did just this to one provider.
func (c *call) applyDelta(change store.Change, p indexDelta) {
	if len(change.Roots) != 1 {
		c.refresh(change)
		return
	}
	p.root, p.generationAfter, p.readsBefore = change.Roots[0], change.Generation, c.reads
	c.logRefreshError(c.server.index.applyDelta(c.ctx(), p), change.Roots)
}

// patchInventories is a patch by new inventories. They are read back where the column may not keep the ratio as it is: MariaDB's FLOAT.
func (c *call) patchInventories(change store.Change, generation int, all map[resource.Class]resource.Inventory) {
	for _, inv := range all {
		if eighths := inv.AllocationRatio * 8; eighths != float64(int(eighths)) || eighths > 1<<16 {
			c.refresh(change)
			return
		}
	}
	c.applyDelta(change, indexDelta{id: c.provider(), generationBefore: generation, change: func(r *index.Row) { r.Inventories = maps.Clone(all) }})
}
