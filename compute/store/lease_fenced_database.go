package store

import (
	"context"
	"sync"

	"github.com/openberth/berth/fault"
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

// Read is sqldb.DB.Read with the check.
func (f *fencedDB) Read(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return f.db.Read(ctx, f.withFence(ctx, false, fn))
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

// fence returns the function of a transaction with a preceding check that this process owns the lease. With lock no
// other process can acquire the lease before the transaction ends.
func (l *Lease) fence(ctx context.Context, lock bool, fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		held, err := readOwner(ctx, tx, lock)
		if err != nil {
			return err
		}
		if held.Instance != l.self.Instance {
			return l.setLost(held)
		}
		return fn(tx)
	}
}

// setLost records the new owner and returns the fault that names it.
func (l *Lease) setLost(by LeaseOwner) error {
	l.once.Do(func() {
		l.takenBy = by
		l.client.end()
		close(l.lost)
	})
	<-l.lost
	return fault.New(fault.Unavailable, "", "another process has taken over compute's database (%s): "+
		"this process did not renew its lease for %s, and ends", l.takenBy, l.options.TTL)
}
