package liveindex

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// refreshTimeout is the time limit of a refresh. A refresh continues if the client that caused it disconnects.
const refreshTimeout = 30 * time.Second

// Store is what the index reads of the database; *store.Store implements it and documents its faults.
type Store interface {
	Trees(ctx context.Context, each func(root provider.ID, rows []store.Row)) error
	TreeRows(ctx context.Context, roots ...provider.ID) ([]store.Row, error)
	Uses(ctx context.Context, providers ...provider.ID) (map[provider.ID]resource.Amounts, error)
	Class(ctx context.Context, name resource.Class) (store.Class, error)
	Traits(ctx context.Context, filter store.TraitFilter) ([]store.Trait, error)
	ClassNumbers(ctx context.Context) (map[int64]resource.Class, error)
	DataVersion(ctx context.Context) (number int64, ok bool, err error)
	Fingerprints(ctx context.Context, whole bool) (store.Fingerprints, error)
	ProviderVersions(ctx context.Context, buckets ...store.Bucket) (map[store.Bucket][]store.ProviderVersion, error)
}

// Index holds the newest snapshot of the index and reads trees again from the database. It is safe for concurrent use.
//
// Only one refresh runs at a time, and each reads the database after it has started, so an older read never replaces a
// newer one. All callers that wait during a refresh share the next one.
type Index struct {
	store    Store
	snapshot atomic.Pointer[index.Snapshot]

	running chan struct{} // holds one token while a refresh runs
	reads   atomic.Uint64 // the number of times that trees or their usage have been read

	// Of the refresh that runs: at which of these reads each tree was read. Trees that are not listed were read at
	// readBefore at the latest.
	treesRead  map[provider.ID]uint64
	readBefore uint64

	mu   sync.Mutex
	next *batch // what the next refresh reads; nil: nothing
	own  bool   // the refresh that runs has writes of this server
}

// batch is what one refresh reads, and its result.
type batch struct {
	own    bool // it has writes of this server
	all    bool // the whole database
	roots  map[provider.ID]bool
	used   map[provider.ID]bool // providers of which only the usage has changed
	deltas []Delta              // in the order in which they were requested
	usage  []UsageDelta
	oldest time.Time // when the oldest of its requests was made
	done   chan struct{}
	err    error // set before done is closed
}

// refreshRequest is what a caller adds to the next refresh.
type refreshRequest struct {
	own    bool
	all    bool
	roots  []provider.ID
	used   []provider.ID
	deltas []Delta
	usage  []UsageDelta
}

// New returns an empty index of a store.
func New(s Store) *Index {
	l := &Index{store: s, running: make(chan struct{}, 1), treesRead: map[provider.ID]uint64{}}
	l.snapshot.Store(index.Build(nil))
	return l
}

// Snapshot returns the newest snapshot.
func (l *Index) Snapshot() *index.Snapshot { return l.snapshot.Load() }

// Reads returns how many times trees or their usage have been read.
func (l *Index) Reads() uint64 { return l.reads.Load() }

// CatchUp returns a snapshot after all pending refreshes have been done, and the one that runs if it has writes of this
// server: another client may have read these from the database already, and must not get an older state now.
func (l *Index) CatchUp(ctx context.Context) (*index.Snapshot, error) {
	if l.isBehind() {
		if err := l.refreshAndWait(ctx, refreshRequest{}); err != nil {
			return nil, err
		}
	}
	return l.Snapshot(), nil
}

// Reload reads the whole database again.
func (l *Index) Reload(ctx context.Context) error {
	return l.refreshAndWait(ctx, refreshRequest{all: true})
}

// Refresh reads these trees again; the result includes everything that the caller has committed. If it fails, the next
// refresh reads them.
func (l *Index) Refresh(ctx context.Context, roots ...provider.ID) error {
	return l.refreshTrees(ctx, refreshRequest{own: true, roots: roots})
}

// RefreshForeign is Refresh of trees that another process has changed.
func (l *Index) RefreshForeign(ctx context.Context, roots ...provider.ID) error {
	return l.refreshTrees(ctx, refreshRequest{roots: roots})
}

func (l *Index) refreshTrees(ctx context.Context, what refreshRequest) error {
	if len(what.roots) == 0 {
		return nil
	}
	return l.refreshAndWait(ctx, what)
}

// RefreshUsage reads only the usage of these providers again.
func (l *Index) RefreshUsage(ctx context.Context, used ...provider.ID) error {
	return l.refreshAndWait(ctx, refreshRequest{own: true, used: used})
}

// refreshAndWait adds a request to the next refresh, and runs that refresh or waits for it. It returns
// fault.Unavailable at the deadline of ctx; the request then remains for the next refresh.
func (l *Index) refreshAndWait(ctx context.Context, what refreshRequest) error {
	ctx, cancel := withoutCancel(ctx, refreshTimeout)
	defer cancel()
	mine := l.enqueue(time.Now(), what)
	runtime.Gosched() // so that the requests of a transaction that many clients shared share one refresh, too
	select {
	case l.running <- struct{}{}:
		l.runNext(ctx)
	case <-mine.done:
	case <-ctx.Done():
	}
	select {
	case <-mine.done: // closed by runNext here or in another goroutine
		return mine.err
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "the index was not refreshed in time: %w", ctx.Err())
	}
}

// withoutCancel returns a context that ends after limit or at the deadline of ctx, but not if the client disconnects.
func withoutCancel(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

func (l *Index) enqueue(since time.Time, what refreshRequest) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &batch{roots: map[provider.ID]bool{}, used: map[provider.ID]bool{}, oldest: since, done: make(chan struct{})}
	}
	if since.Before(l.next.oldest) {
		l.next.oldest = since
	}
	l.next.own = l.next.own || what.own
	l.next.all = l.next.all || what.all
	l.next.deltas = append(l.next.deltas, what.deltas...)
	l.next.usage = append(l.next.usage, what.usage...)
	for _, root := range what.roots {
		l.next.roots[root] = true
	}
	for _, id := range what.used {
		l.next.used[id] = true
	}
	return l.next
}

// runNext runs the next refresh, if any. The caller has put a token into running; runNext removes it in any case.
func (l *Index) runNext(ctx context.Context) {
	defer func() { <-l.running }()
	b := l.takeNext()
	if b == nil {
		return
	}
	defer l.ended()
	ctx, cancel := withoutCancel(ctx, refreshTimeout)
	defer cancel()
	b.err = fault.New(fault.Internal, "the refresh panicked") // replaced below unless load panics
	defer func() {
		if b.err != nil {
			for _, p := range b.deltas {
				b.roots[p.Root] = true
			}
			for _, u := range b.usage {
				for _, root := range u.Roots {
					b.roots[root] = true
				}
			}
			l.enqueue(b.oldest, refreshRequest{own: b.own, all: b.all, roots: slices.Collect(maps.Keys(b.roots)),
				used: slices.Collect(maps.Keys(b.used))})
		}
		close(b.done)
	}()
	b.err = l.load(ctx, b)
}

// takeNext returns the next refresh, which begins to run; nil if there is none.
func (l *Index) takeNext() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.next
	if l.next = nil; b != nil {
		l.own = b.own
	}
	return b
}

// ended records that no refresh runs any more.
func (l *Index) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = false
}

// load reads the contents of a batch and then replaces the snapshot once.
func (l *Index) load(ctx context.Context, b *batch) error {
	if b.all {
		var all index.Builder
		err := l.store.Trees(ctx, all.Add)
		if err == nil {
			l.readBefore = l.reads.Add(1)
			clear(l.treesRead)
			l.snapshot.Store(all.Snapshot())
		}
		return err
	}
	s := l.addUsage(l.applyDeltas(l.snapshot.Load(), b), b)
	s, err := l.replace(ctx, s, slices.Sorted(maps.Keys(b.roots)))
	if err != nil {
		return err
	}
	if s, err = l.readUsage(ctx, s, b); err != nil {
		return err
	}
	l.snapshot.Store(s)
	return nil
}

// replace returns a snapshot in which these trees have been read again.
func (l *Index) replace(ctx context.Context, s *index.Snapshot, roots []provider.ID) (*index.Snapshot, error) {
	if len(roots) == 0 {
		return s, nil
	}
	rows, err := l.readTrees(ctx, s, roots)
	if err != nil {
		return nil, err
	}
	for root, tree := range rows {
		s = s.Replace(root, tree)
	}
	l.wereRead(slices.Collect(maps.Keys(rows)))
	return s, nil
}

// maxTreesRead bounds treesRead.
const maxTreesRead = 4096

// wereRead records that trees, or the usage of their providers, have just been read.
func (l *Index) wereRead(roots []provider.ID) {
	at := l.reads.Add(1)
	if len(l.treesRead)+len(roots) > maxTreesRead {
		l.readBefore = at
		clear(l.treesRead)
		return
	}
	for _, root := range roots {
		l.treesRead[root] = at
	}
}

// readAt returns the latest of the reads, as Reads counts them, at which a tree may have been read.
func (l *Index) readAt(root provider.ID) uint64 {
	if at, ok := l.treesRead[root]; ok {
		return at
	}
	return l.readBefore
}

// readTrees reads these trees, and those in which the snapshot has providers that are in one of these trees now, all in
// one transaction. A provider may have moved after the caller determined the roots; without its former tree, the index
// would have it twice. A tree that no longer exists has no rows.
func (l *Index) readTrees(ctx context.Context, s *index.Snapshot, roots []provider.ID) (
	trees map[provider.ID][]index.Row, err error) {
	for {
		rows, err := l.store.TreeRows(ctx, roots...)
		if err != nil {
			return nil, err
		}
		trees = make(map[provider.ID][]index.Row, len(roots))
		for _, root := range roots {
			trees[root] = nil
		}
		for _, row := range rows {
			trees[row.Root] = append(trees[row.Root], row)
			former := s.RootOf(row.ID)
			if _, read := trees[former]; !read && former != "" {
				trees[former] = nil
			}
		}
		if len(trees) == len(roots) {
			return trees, nil
		}
		roots = slices.Sorted(maps.Keys(trees))
	}
}

// readUsage returns a snapshot with the current usage of the providers in b.used, except those whose trees are in
// b.roots and have just been read.
func (l *Index) readUsage(ctx context.Context, s *index.Snapshot, b *batch) (*index.Snapshot, error) {
	var ids []provider.ID
	for id := range b.used {
		if !b.roots[s.RootOf(id)] {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return s, nil
	}
	slices.Sort(ids)
	uses, err := l.store.Uses(ctx, ids...)
	if err != nil {
		return nil, err
	}
	roots := make([]provider.ID, len(ids))
	for i, id := range ids {
		roots[i] = s.RootOf(id)
	}
	l.wereRead(roots)
	return s.WithUsage(uses), nil
}

// isBehind reports whether trees wait to be read, for example after a failed refresh, or writes of this server are
// being read.
func (l *Index) isBehind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil || l.own
}

// Lag returns how long trees have been waiting to be read; 0 if none are waiting.
func (l *Index) Lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		return 0
	}
	return time.Since(l.next.oldest)
}

// applyDeltas applies the applicable deltas of a batch and adds the trees of the others to b.roots.
func (l *Index) applyDeltas(s *index.Snapshot, b *batch) *index.Snapshot {
	for _, p := range b.deltas {
		if p.applicable(s, l.readAt(p.Root)) {
			s = p.apply(s)
		} else {
			b.roots[p.Root] = true
		}
	}
	return s
}

// Apply applies the effect of a write to the index.
func (l *Index) Apply(ctx context.Context, p Delta) error {
	return l.refreshAndWait(ctx, refreshRequest{own: true, deltas: []Delta{p}})
}

// ApplyUsage adds the effect of a write on usage to the index.
func (l *Index) ApplyUsage(ctx context.Context, d UsageDelta) error {
	return l.refreshAndWait(ctx, refreshRequest{own: true, usage: []UsageDelta{d}})
}
