package server

import (
	"context"
	"maps"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// patch is what a write did to one provider, so that the index can do the same without reading the tree again: but only if
// the index has the provider as the write found it, and nobody has read trees since the write began. Else the tree is read.
type patch struct {
	root   provider.ID
	id     provider.ID
	parent provider.ID        // of a new provider; empty: it is a root
	before int                // the generation that the write found; -1: the provider is new
	after  int                // the one it left
	seen   uint64             // live.reads when the write began
	do     func(r *index.Row) // what it did besides
}

// fits says whether a patch can be applied.
func (p patch) fits(s *index.Snapshot, reads uint64) bool {
	if p.seen != reads {
		return false
	}
	place, known := s.Find(p.id)
	if p.before >= 0 {
		return known && place.Tree.Root == p.root && place.Node().Generation == p.before
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
func (p patch) apply(s *index.Snapshot) *index.Snapshot {
	r, known := s.Row(p.id)
	if !known {
		r.Provider = provider.Provider{ID: p.id, Parent: p.parent, Root: p.root}
	}
	r.Generation = p.after
	p.do(&r)
	return s.WithRow(r)
}

// patched applies what can be applied of a batch, and adds the trees of the rest to those that it reads.
func (l *live) patched(s *index.Snapshot, b *batch) *index.Snapshot {
	reads := l.reads.Load()
	for _, p := range b.patches {
		if p.fits(s, reads) {
			s = p.apply(s)
		} else {
			b.roots[p.root] = true
		}
	}
	return s
}

// patch tells the index what a write did.
func (l *live) patch(ctx context.Context, p patch) error {
	return l.join(ctx, ask{patches: []patch{p}})
}

// patch is refresh for a write that did just this to one provider.
func (c *call) patch(change store.Change, p patch) {
	if len(change.Roots) != 1 {
		c.refresh(change)
		return
	}
	p.root, p.after, p.seen = change.Roots[0], change.Generation, c.reads
	c.behind(c.server.index.patch(c.ctx(), p), change.Roots)
}

// stocked is a patch by new inventories. They are read back where the column may not keep the ratio as it is: MariaDB's FLOAT.
func (c *call) stocked(change store.Change, generation int, all map[resource.Class]resource.Inventory) {
	for _, inv := range all {
		if eighths := inv.AllocationRatio * 8; eighths != float64(int(eighths)) || eighths > 1<<16 {
			c.refresh(change)
			return
		}
	}
	c.patch(change, patch{id: c.provider(), before: generation, do: func(r *index.Row) { r.Inventories = maps.Clone(all) }})
}
