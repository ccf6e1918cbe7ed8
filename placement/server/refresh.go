package server

import (
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// refresh reads the trees of a change again before the write is answered, so that a client that has received the answer
// finds the write in the index. The write is committed in any case: a failed refresh is logged, and the next query for
// candidates repeats it.
func (c *call) refresh(change store.Change) {
	defer c.server.changed(change.Roots...)
	c.server.announce(change.Roots)
	if change.Added != nil {
		c.logRefreshError(c.server.index.ApplyUsage(c.Context(),
			liveindex.UsageDelta{Roots: change.Roots, Added: change.Added, Reads: c.reads}), change.Roots)
		return
	}
	snapshot := c.server.index.Snapshot()
	known := func(id provider.ID) bool { return slices.Contains(change.Roots, snapshot.RootOf(id)) }
	if len(change.Used) == 0 || !all(change.Used, known) { // another process created or moved one
		c.logRefreshError(c.server.index.Refresh(c.Context(), change.Roots...), change.Roots)
		return
	}
	c.logRefreshError(c.server.index.RefreshUsage(c.Context(), change.Used...), change.Roots)
}

func (c *call) refreshRoots(roots []provider.ID) {
	c.server.announce(roots)
	c.logRefreshError(c.server.index.Refresh(c.Context(), roots...), roots)
}

// logRefreshError logs that trees were not read again after a write.
func (c *call) logRefreshError(err error, roots []provider.ID) {
	if err != nil {
		c.server.log.Warn("index refresh failed, will retry", "request_id", c.ID, "trees", roots, "error", err)
	}
}

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(t T) bool { return !is(t) })
}

// applyDelta is like refresh, for a write that changed one provider. The caller leaves out Root, After and Reads.
func (c *call) applyDelta(change store.Change, p liveindex.Delta) {
	if len(change.Roots) != 1 {
		c.refresh(change)
		return
	}
	c.server.announce(change.Roots)
	p.Root, p.After, p.Reads = change.Roots[0], change.Generation, c.reads
	c.logRefreshError(c.server.index.Apply(c.Context(), p), change.Roots)
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
	c.applyDelta(change, liveindex.Delta{ID: c.provider(), Before: generation,
		Change: func(r *index.Row) { r.Inventories = maps.Clone(all) }})
}
