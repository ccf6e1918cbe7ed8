package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Database is a database with a check of its lease. After Hold, each transaction first verifies that this process
// still owns the lease, so a process that was suspended until another took over can neither write nor read. Lease.Check
// guards requests to other services.
type Database struct {
	*sqldb.DB // each of its methods that runs a transaction must have one here: the promoted one checks nothing
	mu        sync.RWMutex
	lease     *Lease // nil: no check
	writes    atomic.Int64

	doubted atomic.Pointer[time.Time] // when the last write ended in a way that is not known; see IsAlone
}

// Write is sqldb.DB.Write with the check. No other process can acquire the lease before the transaction ends.
func (f *Database) Write(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return f.written(f.DB.Write(ctx, f.withFence(ctx, true, fn)))
}

// written counts a transaction that writes, and returns its error. A transaction of which the end is not known may be
// committed a moment later.
func (f *Database) written(err error) error {
	f.writes.Add(1)
	if sqldb.IsUnknown(err) {
		now := time.Now()
		f.doubted.Store(&now)
	}
	return err
}

// IsAlone reports whether the rows change only by writes of this process that have ended, so that rows kept in memory
// are those of the database: it has a lease that it has renewed in time, and knows how each of its writes has ended.
func (f *Database) IsAlone() bool {
	alone, _ := f.Alone()
	return alone
}

// Alone is IsAlone. If it is true, doubt is when the last write ended in a way that was not known, which is over now;
// nil: none has. What was read after it and before now may be older than that write. Each doubt has another pointer.
func (f *Database) Alone() (alone bool, doubt *time.Time) {
	doubt = f.doubted.Load()
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.lease != nil && f.lease.Check() == nil &&
		(doubt == nil || time.Since(*doubt) > f.lease.options.Doubt), doubt
}

// Writes returns how many transactions that write this process has ended.
func (f *Database) Writes() int64 { return f.writes.Load() }

// WriteUpTo is Write with another number of attempts.
func (f *Database) WriteUpTo(ctx context.Context, attempts int, fn func(*sqldb.Tx) error) error {
	return f.written(f.DB.WriteUpTo(ctx, attempts, f.withFence(ctx, true, fn)))
}

// Read is sqldb.DB.Read with the check. While the process may act on its lease without asking the database, no other
// one has it, so the check is not necessary.
func (f *Database) Read(ctx context.Context, fn func(*sqldb.Tx) error) error {
	if f.isLeased() {
		return f.DB.Read(ctx, fn)
	}
	return f.DB.Read(ctx, f.withFence(ctx, false, fn))
}

// ReadOne is Read for a function that runs one statement. The check, where it is necessary, is another one.
func (f *Database) ReadOne(ctx context.Context, fn func(*sqldb.Tx) error) error {
	if f.isLeased() {
		return f.DB.ReadOne(ctx, fn)
	}
	return f.Read(ctx, fn)
}

// isLeased reports whether the process has a lease that it has renewed in time.
func (f *Database) isLeased() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.lease != nil && f.lease.Check() == nil
}

// withFence adds the check to the function of a transaction, if there is a lease.
func (f *Database) withFence(ctx context.Context, lock bool, fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.lease == nil {
		return fn
	}
	return f.lease.fence(ctx, lock, fn)
}

// Hold acquires the lease for this process. Afterwards all calls of the database fail once another process owns the
// lease. A lease that was released or whose owner is known to have ended is acquired at once; otherwise Hold waits for
// a renewal up to the TTL (twice the TTL for an owner known to run). It returns fault.Conflict, which names the owner,
// if the owner renews the lease. Keep must run as long as the database is used.
func (f *Database) Hold(ctx context.Context, me Owner, terms Options) (*Lease, error) {
	l := &Lease{db: f.DB, self: me, options: terms.withDefaults(), lost: make(chan struct{})}
	l.client = newClientLease(l.options.TTL - l.options.TTL/3)
	if err := l.waitAndAcquire(ctx); err != nil {
		return nil, fault.Wrap("", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease = l
	return l, nil
}
