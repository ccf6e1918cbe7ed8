package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
)

// refreshTime is how long a refresh may take. It goes on when the client that caused it has gone.
const refreshTime = 30 * time.Second

// live is the index: the newest snapshot, and the one road on which trees are read again.
//
// Refreshes go one after the other, and each reads the database after it got its turn, so an older read never replaces a
// newer one. Who waits for a turn shares the next refresh with all others who wait.
type live struct {
	store    *store.Store
	snapshot atomic.Pointer[index.Snapshot]

	turn  chan struct{} // holds one token while a refresh is going on
	reads atomic.Uint64 // how often trees have been read

	mu   sync.Mutex
	next *batch // what the next refresh reads; nil: nothing yet
}

// batch is what one refresh reads, and how it went.
type batch struct {
	all     bool // the whole database
	roots   map[provider.ID]bool
	used    map[provider.ID]bool // providers of which nothing but the usage has changed
	patches []patch              // in the order in which they were told
	since   time.Time            // the oldest of what it reads has been waiting since then
	done    chan struct{}
	err     error // set before done is closed
}

// ask is what a refresh is to do.
type ask struct {
	all     bool
	roots   []provider.ID
	used    []provider.ID
	patches []patch
}

func newLive(s *store.Store) *live {
	l := &live{store: s, turn: make(chan struct{}, 1)}
	l.snapshot.Store(index.Build(nil))
	return l
}

// now is the newest snapshot.
func (l *live) now() *index.Snapshot { return l.snapshot.Load() }

// reload reads the whole database again.
func (l *live) reload(ctx context.Context) error { return l.join(ctx, ask{all: true}) }

// refresh reads these trees again, after whatever the caller has committed. When it fails the trees are kept for the next
// refresh, whoever causes it.
func (l *live) refresh(ctx context.Context, roots ...provider.ID) error {
	if len(roots) == 0 {
		return nil
	}
	return l.join(ctx, ask{roots: roots})
}

// refreshUsage reads again what is taken of these providers, and nothing else of them.
func (l *live) refreshUsage(ctx context.Context, used ...provider.ID) error {
	return l.join(ctx, ask{used: used})
}

// join adds to the next refresh, and waits until it is done or does it, but not longer than the deadline of ctx: then
// the next refresh does it.
func (l *live) join(ctx context.Context, what ask) error {
	ctx, cancel := patient(ctx, refreshTime)
	defer cancel()
	mine := l.add(time.Now(), what)
	select {
	case l.turn <- struct{}{}:
		l.run(ctx)
	case <-mine.done:
	case <-ctx.Done():
	}
	select {
	case <-mine.done: // by run, or by the refresh before it
		return mine.err
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "placement.server", "the index was not read again in time: %w", ctx.Err())
	}
}

// patient returns a context that ends after limit or with the deadline of ctx, but not when the client goes.
func patient(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

func (l *live) add(since time.Time, what ask) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &batch{roots: map[provider.ID]bool{}, used: map[provider.ID]bool{}, since: since, done: make(chan struct{})}
	}
	if since.Before(l.next.since) {
		l.next.since = since
	}
	l.next.all = l.next.all || what.all
	l.next.patches = append(l.next.patches, what.patches...)
	for _, root := range what.roots {
		l.next.roots[root] = true
	}
	for _, id := range what.used {
		l.next.used[id] = true
	}
	return l.next
}

// run carries out the next refresh, if there is any. It holds the turn, and gives it back however it ends.
func (l *live) run(ctx context.Context) {
	defer func() { <-l.turn }()
	l.mu.Lock()
	b := l.next
	l.next = nil
	l.mu.Unlock()
	if b == nil {
		return
	}
	ctx, cancel := patient(ctx, refreshTime)
	defer cancel()
	b.err = fault.New(fault.Internal, "placement.server", "the refresh did not end") // if load panics
	defer func() {
		if b.err != nil {
			for _, p := range b.patches {
				b.roots[p.root] = true
			}
			l.add(b.since, ask{all: b.all, roots: slices.Collect(maps.Keys(b.roots)), used: slices.Collect(maps.Keys(b.used))})
		}
		close(b.done)
	}()
	b.err = l.load(ctx, b)
}

// load reads what a batch names and swaps the snapshot, once.
func (l *live) load(ctx context.Context, b *batch) error {
	if b.all {
		rows, err := l.store.Rows(ctx)
		if err == nil {
			l.reads.Add(1)
			l.snapshot.Store(index.Build(indexRows(rows)))
		}
		return err
	}
	s := l.patched(l.snapshot.Load(), b)
	s, err := l.replace(ctx, s, slices.Sorted(maps.Keys(b.roots)))
	if err != nil {
		return err
	}
	if s, err = l.use(ctx, s, b); err != nil {
		return err
	}
	l.snapshot.Store(s)
	return nil
}

// replace reads whole trees.
func (l *live) replace(ctx context.Context, s *index.Snapshot, roots []provider.ID) (*index.Snapshot, error) {
	if len(roots) == 0 {
		return s, nil
	}
	rows, err := l.store.TreeRows(ctx, roots...)
	if err != nil {
		return nil, err
	}
	trees := make(map[provider.ID][]index.Row, len(roots))
	for _, row := range indexRows(rows) {
		trees[row.Root] = append(trees[row.Root], row)
	}
	for _, root := range roots {
		s = s.Replace(root, trees[root])
	}
	l.reads.Add(1)
	return s, nil
}

// use reads the usage of providers whose trees have not been read just now.
func (l *live) use(ctx context.Context, s *index.Snapshot, b *batch) (*index.Snapshot, error) {
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
	return s.WithUsage(uses), nil
}

// behind says whether a refresh failed and its trees wait to be read again.
func (l *live) behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

// waiting is how long trees have been waiting to be read again; 0 when none are.
func (l *live) waiting() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		return 0
	}
	return time.Since(l.next.since)
}

func indexRows(rows []store.Row) []index.Row {
	out := make([]index.Row, len(rows))
	for i, r := range rows {
		out[i] = index.Row(r)
	}
	return out
}

// refresh reads the trees of a change again, so that whoever hears of the write finds it in the index. The write stands in
// any case: a refresh that fails is logged, and the next candidates wait for its repetition.
func (c *call) refresh(change store.Change) {
	snapshot := c.server.index.now()
	known := func(id provider.ID) bool { return slices.Contains(change.Roots, snapshot.RootOf(id)) }
	if len(change.Used) == 0 || !all(change.Used, known) { // somebody else has made or moved one
		c.refreshRoots(change.Roots)
		return
	}
	c.behind(c.server.index.refreshUsage(c.ctx(), change.Used...), change.Roots)
}

func (c *call) refreshRoots(roots []provider.ID) {
	c.behind(c.server.index.refresh(c.ctx(), roots...), roots)
}

func (c *call) behind(err error, roots []provider.ID) {
	if err != nil {
		c.server.log.Warn("the index is behind the database", "request_id", c.id, "trees", roots, "error", err)
	}
}

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(t T) bool { return !is(t) })
}

// fresh is a snapshot in which no refresh is owed.
func (c *call) fresh() (*index.Snapshot, error) {
	if c.server.index.behind() {
		if err := c.server.index.join(c.ctx(), ask{}); err != nil {
			return nil, err
		}
	}
	return c.server.index.now(), nil
}
