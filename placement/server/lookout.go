package server

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	defaultRefreshInterval = time.Second // [berth] index_refresh_interval, unless it is configured
	sweepLooks             = 60          // after so many looks every provider has been compared
)

// lookout finds what others have written to the database: OpenStack's own Placement, other Berths, other processes. It serves one goroutine.
//
// A look costs little when nothing happened: SQLite says that nobody else wrote; elsewhere one fingerprint of everything is
// read and is the same. Else the fingerprints of stretches of providers say where something happened, the marks of the
// providers there which trees the index has wrong, and those are read again. Own writes change fingerprints too, but then the marks
// agree with the index. (What a fingerprint tells, and why: store.Print.)
//
// At each look a few stretches are compared besides, in turn: names of providers are not in fingerprints.
type lookout struct {
	store *store.Store
	index *live
	names *names

	foreign int64 // what store.Foreign said at the last look
	seen    map[store.Bucket]ground
	whole   *store.Fingerprint // of everything at the last look; nil when something had happened, so that it is not worth asking
	classes map[int64]resource.Class
	traits  string
	swept   store.Bucket // all up to this one have been compared in this turn
}

// ground is a stretch as it was when it was last compared.
type ground struct {
	print     store.Fingerprint
	providers []provider.ID
}

// newLookout is for an index that is read afterwards: what happens from now on is found.
func newLookout(ctx context.Context, s *store.Store, index *live, names *names) (*lookout, error) {
	classes, err := s.ClassNumbers(ctx)
	return &lookout{store: s, index: index, names: names, classes: classes}, err
}

// Run keeps the index up to date with what others write to the database, until ctx ends. Without it the index knows the writes of this
// server alone. What somebody else has committed is in the index after Options.RefreshInterval and the time of one look, a fraction of
// a second for ten thousand hosts; while the database does not answer the index grows older, which /healthz and /metrics tell.
// Call it once.
func (s *Server) Run(ctx context.Context) {
	ticks := time.NewTicker(s.opts.RefreshInterval)
	defer ticks.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		began := s.now()
		err := s.lookout.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.fresh.Store(&began)
			if failing {
				s.log.Info("the index follows the database again")
			}
		case !failing:
			s.log.Warn("the index does not follow the database", "error", err)
		}
		failing = err != nil
	}
}

// look compares the index with the database once and reads again what differs. After an error it may be called again.
func (o *lookout) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	foreign, ok, err := o.store.DataVersion(ctx)
	if err != nil || ok && o.seen != nil && foreign == o.foreign {
		return err
	}
	if err := o.compare(ctx); err != nil {
		return err
	}
	o.foreign = foreign
	return nil
}

func (o *lookout) compare(ctx context.Context) error {
	if o.whole != nil {
		now, err := o.store.Fingerprints(ctx, true)
		if err != nil {
			return err
		}
		if now.Sum() == *o.whole {
			if err := o.rename(ctx, now); err != nil {
				return err
			}
			return o.walk(ctx, nil, o.sweep())
		}
	}
	now, err := o.store.Fingerprints(ctx, false)
	if err != nil {
		return err
	}
	if err := o.rename(ctx, now); err != nil {
		return err
	}
	var suspects []store.Bucket
	for at, p := range now.Buckets {
		if g, ok := o.seen[at]; !ok || g.print != p {
			suspects = append(suspects, at)
		}
	}
	for at := range o.seen {
		if _, ok := now.Buckets[at]; !ok {
			suspects = append(suspects, at)
		}
	}
	if err := o.walk(ctx, now.Buckets, append(suspects, o.sweep()...)); err != nil {
		return err
	}
	o.whole = nil
	if whole := now.Sum(); len(suspects) == 0 {
		o.whole = &whole
	}
	return nil
}

// sweep chooses the stretches that are compared without suspicion at this look.
func (o *lookout) sweep() []store.Bucket {
	all := slices.Sorted(maps.Keys(o.seen))
	from, found := slices.BinarySearch(all, o.swept)
	if found {
		from++
	}
	if from >= len(all) {
		from = 0
	}
	part := all[from:min(len(all), from+len(all)/sweepLooks+1)]
	if len(part) > 0 {
		o.swept = part[len(part)-1]
	}
	return part
}

// walk compares the index with the marks of stretches, reads again the trees that it has wrong, and remembers what it saw: with the
// fingerprints that were read before the marks, so that what happened in between shows at the next look. Without prints those
// seen before stand.
func (o *lookout) walk(ctx context.Context, prints map[store.Bucket]store.Fingerprint, stretches []store.Bucket) error {
	found, err := o.store.ProviderVersions(ctx, stretches...)
	if err != nil {
		return err
	}
	snapshot, wrong := o.index.now(), map[provider.ID]bool{}
	grounds := make(map[store.Bucket]ground, len(found))
	for at, marks := range found {
		g := ground{print: o.seen[at].print, providers: make([]provider.ID, len(marks))}
		if prints != nil {
			g.print = prints[at]
		}
		there := make(map[provider.ID]bool, len(marks))
		for i, m := range marks {
			there[m.ID] = true
			place, known := snapshot.Find(m.ID)
			switch g.providers[i] = m.ID; {
			case !known:
				wrong[m.Root] = true
			case !agrees(snapshot, place, m):
				wrong[m.Root], wrong[place.Tree.Root] = true, true // two when it has moved
			default:
				g.providers[i] = place.Node().ID // the same text, and the same memory
			}
		}
		for _, id := range o.seen[at].providers {
			if !there[id] {
				wrong[snapshot.RootOf(id)] = true
			}
		}
		grounds[at] = g
	}
	if o.seen == nil { // what was deleted before the first look
		o.missing(snapshot, grounds, wrong)
	}
	delete(wrong, "") // the root of what the index does not know
	if err := o.index.refresh(ctx, slices.Collect(maps.Keys(wrong))...); err != nil {
		return err
	}
	if o.seen == nil {
		o.seen = map[store.Bucket]ground{}
	}
	for at, g := range grounds {
		if len(g.providers) > 0 || g.print != (store.Fingerprint{}) {
			o.seen[at] = g
		} else {
			delete(o.seen, at)
		}
	}
	return nil
}

// missing finds the trees of providers that are in the index and nowhere else.
func (o *lookout) missing(snapshot *index.Snapshot, grounds map[store.Bucket]ground, wrong map[provider.ID]bool) {
	all := make(map[provider.ID]bool, snapshot.Providers())
	for _, g := range grounds {
		for _, id := range g.providers {
			all[id] = true
		}
	}
	for t := range snapshot.Trees() {
		for i := range t.Nodes {
			if !all[t.Nodes[i].ID] {
				wrong[t.Root] = true
			}
		}
	}
}

// agrees says whether the index has a provider as its mark says.
func agrees(s *index.Snapshot, place index.Place, m store.ProviderVersion) bool {
	n, parent, used := place.Node(), provider.ID(""), 0
	if n.Parent >= 0 {
		parent = place.Tree.Nodes[n.Parent].ID
	}
	for i := range n.Inventories {
		used += n.Inventories[i].Used
	}
	for _, a := range m.Aggregates {
		if !n.In(s.Aggregate(a)) {
			return false
		}
	}
	return n.Name == m.Name && n.Generation == m.Generation && place.Tree.Root == m.Root && parent == m.Parent &&
		used == m.Used && len(n.Aggregates) == len(m.Aggregates)
}

// rename follows resource classes and traits. A class of another name is another name in every tree.
func (o *lookout) rename(ctx context.Context, now store.Fingerprints) error {
	if maps.Equal(o.classes, now.Classes) && o.traits == now.Traits {
		return nil
	}
	o.names.clear()
	for number, name := range o.classes {
		if other, ok := now.Classes[number]; ok && other != name {
			if err := o.index.reload(ctx); err != nil {
				return err
			}
			break
		}
	}
	o.classes, o.traits = now.Classes, now.Traits
	return nil
}

// clear forgets all names: somebody else may have removed some.
func (n *names) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.classes)
	clear(n.traits)
}
