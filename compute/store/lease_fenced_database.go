package store

import (
	"context"
	"sync"

	"github.com/openberth/berth/sqldb"
)

// fencedDB is the database with a check of the lease. After Hold, each transaction first verifies that this process
// still owns the lease, so a process that was suspended until another took over can neither write nor read. Lease.Check
// guards requests to other services.
type fencedDB struct {
	db    *sqldb.DB
	mu    sync.RWMutex
	lease *Lease // nil: no check
}

// Write is sqldb.DB.Write with the check. No other process can acquire the lease before the transaction ends.
func (f *fencedDB) Write(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return f.db.Write(ctx, f.withFence(ctx, true, fn))
}

// Read is sqldb.DB.Read with the check. While the process may act on its lease without asking the database, no other
// one has it, so the check is not necessary.
func (f *fencedDB) Read(ctx context.Context, fn func(*sqldb.Tx) error) error {
	if f.isLeased() {
		return f.db.Read(ctx, fn)
	}
	return f.db.Read(ctx, f.withFence(ctx, false, fn))
}

// isLeased reports whether the process has a lease that it has renewed in time.
func (f *fencedDB) isLeased() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.lease != nil && f.lease.Check() == nil
}

// withFence adds the check to the function of a transaction, if there is a lease.
func (f *fencedDB) withFence(ctx context.Context, lock bool, fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.lease == nil {
		return fn
	}
	return f.lease.fence(ctx, lock, fn)
}
