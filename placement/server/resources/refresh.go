package resources

import (
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// refresh reads the trees of a change again before the write is answered, so that a client that has received the answer
// finds the write in the index. The write is committed in any case: a failed refresh is logged, and the next query for
// candidates repeats it.
func refresh(c *request.Call, change store.Change) {
	defer c.Service.Changed(change.Roots...)
	c.Service.Announce(change.Roots)
	if change.Added != nil {
		logRefreshError(c, c.Service.Index.ApplyUsage(c.Context(),
			liveindex.UsageDelta{Roots: change.Roots, Added: change.Added, Reads: c.Reads}), change.Roots)
		return
	}
	snapshot := c.Service.Index.Snapshot()
	known := func(id provider.ID) bool { return slices.Contains(change.Roots, snapshot.RootOf(id)) }
	if len(change.Used) == 0 || !all(change.Used, known) { // another process created or moved one
		logRefreshError(c, c.Service.Index.Refresh(c.Context(), change.Roots...), change.Roots)
		return
	}
	logRefreshError(c, c.Service.Index.RefreshUsage(c.Context(), change.Used...), change.Roots)
}

func refreshRoots(c *request.Call, roots []provider.ID) {
	c.Service.Announce(roots)
	logRefreshError(c, c.Service.Index.Refresh(c.Context(), roots...), roots)
}

// logRefreshError logs that trees were not read again after a write.
func logRefreshError(c *request.Call, err error, roots []provider.ID) {
	if err != nil {
		c.Service.Log.Warn("index refresh failed, will retry", "request_id", c.ID, "trees", roots, "error", err)
	}
}

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(t T) bool { return !is(t) })
}

// applyDelta is like refresh, for a write that changed one provider. The caller leaves out Root, After and Reads.
func applyDelta(c *request.Call, change store.Change, p liveindex.Delta) {
	if len(change.Roots) != 1 {
		refresh(c, change)
		return
	}
	c.Service.Announce(change.Roots)
	p.Root, p.After, p.Reads = change.Roots[0], change.Generation, c.Reads
	logRefreshError(c, c.Service.Index.Apply(c.Context(), p), change.Roots)
}

// patchInventories applies new inventories of a provider to the index. If the FLOAT column of MariaDB may round an
// allocation ratio, it reads the tree again instead.
func patchInventories(c *request.Call, change store.Change, generation int, all map[resource.Class]resource.Inventory) {
	for _, inv := range all {
		if eighths := inv.AllocationRatio * 8; eighths != float64(int(eighths)) || eighths > 1<<16 {
			refresh(c, change)
			return
		}
	}
	applyDelta(c, change, liveindex.Delta{ID: c.Provider(), Before: generation,
		Change: func(r *index.Row) { r.Inventories = maps.Clone(all) }})
}
