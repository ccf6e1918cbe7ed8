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
	sweepPolls             = 60          // after so many looks every provider has been compared
)

// lookout finds what others have written to the database: OpenStack's own Placement, other Berths, other processes. It serves one goroutine.
//
// A look costs little when nothing happened: SQLite says that nobody else wrote; elsewhere one fingerprint of everything is
// read and is the same. Else the fingerprints of stretches of providers say where something happened, the marks of the
// providers there which trees the index has wrong, and those are read again. Own writes change fingerprints too, but then the marks
// agree with the index. (What a fingerprint tells, and why: store.Print.)
//
// At each look a few stretches are compared besides, in turn: names of providers are not in fingerprints.
type syncer struct {
	store *store.Store
	index *liveIndex
	names *nameCache

	dataVersion int64 // what store.Foreign said at the last look
	seen        map[store.Stretch]bucketState
	sum         *store.Print // of everything at the last look; nil when something had happened, so that it is not worth asking
	classes     map[int64]resource.Class
	traits      string
	lastBucket  store.Stretch // all up to this one have been compared in this turn
}

// bucketState is a stretch as it was when it was last compared.
type bucketState struct {
	print     store.Print
	providers []provider.ID
}

// newSyncer is for an index that is read afterwards: what happens from now on is found.
func newSyncer(ctx context.Context, s *store.Store, index *liveIndex, names *nameCache) (*syncer, error) {
	classes, err := s.ClassNumbers(ctx)
	return &syncer{store: s, index: index, names: names, classes: classes}, err
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
		err := s.syncer.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.verifiedAt.Store(&began)
			if failing {
				s.log.Info("the index follows the database again")
			}
		case !failing:
			s.log.Warn("the index does not follow the database", "error", err)
		}
		failing = err != nil
	}
}

// poll compares the index with the database once and reads again what differs. After an error it may be called again.
func (o *syncer) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	foreign, ok, err := o.store.Foreign(ctx)
	if err != nil || ok && o.seen != nil && foreign == o.dataVersion {
		return err
	}
	if err := o.compare(ctx); err != nil {
		return err
	}
	o.dataVersion = foreign
	return nil
}

func (o *syncer) compare(ctx context.Context) error {
	if o.sum != nil {
		now, err := o.store.Prints(ctx, true)
		if err != nil {
			return err
		}
		if now.Whole() == *o.sum {
			if err := o.refreshNames(ctx, now); err != nil {
				return err
			}
			return o.compareBuckets(ctx, nil, o.nextBuckets())
		}
	}
	now, err := o.store.Prints(ctx, false)
	if err != nil {
		return err
	}
	if err := o.refreshNames(ctx, now); err != nil {
		return err
	}
	var suspects []store.Stretch
	for at, p := range now.Stretches {
		if g, ok := o.seen[at]; !ok || g.print != p {
			suspects = append(suspects, at)
		}
	}
	for at := range o.seen {
		if _, ok := now.Stretches[at]; !ok {
			suspects = append(suspects, at)
		}
	}
	if err := o.compareBuckets(ctx, now.Stretches, append(suspects, o.nextBuckets()...)); err != nil {
		return err
	}
	o.sum = nil
	if whole := now.Whole(); len(suspects) == 0 {
		o.sum = &whole
	}
	return nil
}

// nextBuckets chooses the stretches that are compared without suspicion at this look.
func (o *syncer) nextBuckets() []store.Stretch {
	all := slices.Sorted(maps.Keys(o.seen))
	from, found := slices.BinarySearch(all, o.lastBucket)
	if found {
		from++
	}
	if from >= len(all) {
		from = 0
	}
	part := all[from:min(len(all), from+len(all)/sweepPolls+1)]
	if len(part) > 0 {
		o.lastBucket = part[len(part)-1]
	}
	return part
}

// compareBuckets compares the index with the marks of stretches, reads again the trees that it has wrong, and remembers what it saw: with the
// fingerprints that were read before the marks, so that what happened in between shows at the next look. Without prints those
// seen before stand.
func (o *syncer) compareBuckets(ctx context.Context, prints map[store.Stretch]store.Print, stretches []store.Stretch) error {
	found, err := o.store.Marks(ctx, stretches...)
	if err != nil {
		return err
	}
	snapshot, wrong := o.index.current(), map[provider.ID]bool{}
	grounds := make(map[store.Stretch]bucketState, len(found))
	for at, marks := range found {
		g := bucketState{print: o.seen[at].print, providers: make([]provider.ID, len(marks))}
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
		o.findDeleted(snapshot, grounds, wrong)
	}
	delete(wrong, "") // the root of what the index does not know
	if err := o.index.refresh(ctx, slices.Collect(maps.Keys(wrong))...); err != nil {
		return err
	}
	if o.seen == nil {
		o.seen = map[store.Stretch]bucketState{}
	}
	for at, g := range grounds {
		if len(g.providers) > 0 || g.print != (store.Print{}) {
			o.seen[at] = g
		} else {
			delete(o.seen, at)
		}
	}
	return nil
}

// findDeleted finds the trees of providers that are in the index and nowhere else.
func (o *syncer) findDeleted(snapshot *index.Snapshot, grounds map[store.Stretch]bucketState, wrong map[provider.ID]bool) {
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
func agrees(s *index.Snapshot, place index.Place, m store.Mark) bool {
	n, parent, used := place.Node(), provider.ID(""), 0
	if n.Parent >= 0 {
		parent = place.Tree.Nodes[n.Parent].ID
	}
	for i := range n.Stocks {
		used += n.Stocks[i].Used
	}
	for _, a := range m.Aggregates {
		if !n.In(s.Aggregate(a)) {
			return false
		}
	}
	return n.Name == m.Name && n.Generation == m.Generation && place.Tree.Root == m.Root && parent == m.Parent &&
		used == m.Used && len(n.Aggregates) == len(m.Aggregates)
}

// refreshNames follows resource classes and traits. A class of another name is another name in every tree.
func (o *syncer) refreshNames(ctx context.Context, now store.Prints) error {
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
func (n *nameCache) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.classes)
	clear(n.traits)
}
