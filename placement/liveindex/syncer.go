package liveindex

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// sweepPolls is the number of polls in which every provider is compared once.
const sweepPolls = 60

// Syncer detects writes of other processes to the database (OpenStack's own Placement, other Berth servers) and updates
// the index. Only one goroutine may use it.
//
// A poll costs little if nothing has changed: SQLite reports whether another connection wrote; for other databases, one
// fingerprint of all providers is read and compared. Otherwise the fingerprints of buckets of providers show where
// something has changed. The versions of the providers in these buckets show which trees in the index are out of date,
// and those trees are read again. The server's own writes change fingerprints too, but then the versions match the
// index. The fingerprints are described in placement/store.
//
// Each poll also compares a few buckets whose fingerprints have not changed, because fingerprints do not include the
// names of providers.
type Syncer struct {
	store Store
	index *Index
	names *Names

	dataVersion int64 // of the store at the last poll
	seen        map[store.Bucket]bucketState
	sum         *store.Fingerprint // of all providers at the last poll; nil: something had changed then
	classes     map[int64]resource.Class
	traits      string
	lastBucket  store.Bucket // the last bucket that nextBuckets returned
}

// bucketState is the state of a bucket when it was last compared.
type bucketState struct {
	print     store.Fingerprint
	providers []provider.ID
}

// NewSyncer returns a Syncer. Call it before the index is first read: the Syncer detects the writes from now on.
func NewSyncer(ctx context.Context, s Store, index *Index, names *Names) (*Syncer, error) {
	classes, err := s.ClassNumbers(ctx)
	return &Syncer{store: s, index: index, names: names, classes: classes}, err
}

// Poll compares the index with the database once and reads the trees again that differ. It may be called again after an
// error.
func (o *Syncer) Poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	foreign, ok, err := o.store.DataVersion(ctx)
	if err != nil || ok && o.seen != nil && foreign == o.dataVersion {
		return err
	}
	if ok {
		o.sum = nil // something was written, so reading the fingerprint of all providers first would save nothing
	}
	if err := o.compare(ctx); err != nil {
		return err
	}
	o.dataVersion = foreign
	return nil
}

// compare finds the buckets whose fingerprints have changed since the last poll and compares their providers.
func (o *Syncer) compare(ctx context.Context) error {
	if o.sum != nil {
		now, err := o.store.Fingerprints(ctx, true)
		if err != nil {
			return err
		}
		if now.Sum() == *o.sum {
			if err := o.refreshNames(ctx, now); err != nil {
				return err
			}
			return o.compareBuckets(ctx, nil, o.nextBuckets())
		}
	}
	now, err := o.store.Fingerprints(ctx, false)
	if err != nil {
		return err
	}
	if err := o.refreshNames(ctx, now); err != nil {
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
	if err := o.compareBuckets(ctx, now.Buckets, append(suspects, o.nextBuckets()...)); err != nil {
		return err
	}
	o.sum = nil
	if whole := now.Sum(); len(suspects) == 0 {
		o.sum = &whole
	}
	return nil
}

// nextBuckets returns the next buckets that a poll compares although their fingerprints have not changed. It returns
// each bucket once in sweepPolls calls.
func (o *Syncer) nextBuckets() []store.Bucket {
	all := slices.Sorted(maps.Keys(o.seen))
	from, found := slices.BinarySearch(all, o.lastBucket)
	if found {
		from++
	}
	if from >= len(all) {
		from = 0
	}
	next := all[from:min(len(all), from+len(all)/sweepPolls+1)]
	if len(next) > 0 {
		o.lastBucket = next[len(next)-1]
	}
	return next
}

// compareBuckets compares the index with the versions of the providers in some buckets, reads the trees again that
// differ, and records the state of the buckets. It records the fingerprints in prints, which were read before the
// versions, so that the next poll detects a write in between. If prints is nil, the recorded fingerprints are kept.
func (o *Syncer) compareBuckets(ctx context.Context, prints map[store.Bucket]store.Fingerprint,
	stretches []store.Bucket) error {
	found, err := o.store.ProviderVersions(ctx, stretches...)
	if err != nil {
		return err
	}
	snapshot, wrong := o.index.Snapshot(), map[provider.ID]bool{}
	states := make(map[store.Bucket]bucketState, len(found))
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
				wrong[m.Root], wrong[place.Tree.Root] = true, true // two trees if the provider has moved
			default:
				g.providers[i] = place.Node().ID // an equal text; it shares the memory of the index
			}
		}
		for _, id := range o.seen[at].providers {
			if !there[id] {
				wrong[snapshot.RootOf(id)] = true
			}
		}
		states[at] = g
	}
	if o.seen == nil { // providers that were deleted before the first poll
		o.findDeleted(snapshot, states, wrong)
	}
	delete(wrong, "") // RootOf returns "" for a provider that is not in the index
	if err := o.index.RefreshForeign(ctx, slices.Collect(maps.Keys(wrong))...); err != nil {
		return err
	}
	if o.seen == nil {
		o.seen = map[store.Bucket]bucketState{}
	}
	for at, g := range states {
		if len(g.providers) > 0 || g.print != (store.Fingerprint{}) {
			o.seen[at] = g
		} else {
			delete(o.seen, at)
		}
	}
	return nil
}

// findDeleted adds to wrong the roots of the trees with providers that are in the index but not in the database.
func (o *Syncer) findDeleted(snapshot *index.Snapshot, states map[store.Bucket]bucketState,
	wrong map[provider.ID]bool) {
	all := make(map[provider.ID]bool, snapshot.Providers())
	for _, g := range states {
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

// agrees reports whether a provider in the index matches its version in the database.
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

// refreshNames clears the name cache if resource classes or traits have changed. If a class was renamed it reads the
// whole index again, because any tree may contain the class.
func (o *Syncer) refreshNames(ctx context.Context, now store.Fingerprints) error {
	if maps.Equal(o.classes, now.Classes) && o.traits == now.Traits {
		return nil
	}
	o.names.clear()
	for number, name := range o.classes {
		if other, ok := now.Classes[number]; ok && other != name {
			if err := o.index.Reload(ctx); err != nil {
				return err
			}
			break
		}
	}
	o.classes, o.traits = now.Classes, now.Traits
	return nil
}
