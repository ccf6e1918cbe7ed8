package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Owner is a process that uses compute's database.
type Owner struct {
	Instance string // id of this start of the process; never reused
	Host     string // name of its machine, for messages
	PID      int
	BootID   string // of its machine, and the process namespace that its PID belongs to; empty: unknown
	LockID   string // of the directory that it has locked on its machine; empty: unknown
	// start time on its machine, which distinguishes it from a later process with the same PID; empty: unknown
	StartTime string
	Since     time.Time // when it acquired the lease, by the clock of the database
}

// String describes the process for messages.
func (h Owner) String() string {
	return fmt.Sprintf("process %d on host %s, since %s", h.PID, h.Host, h.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// Options are the options of a lease. Zero fields have defaults.
type Options struct {
	// validity without renewal, default 6 s; the owner itself uses two thirds of it
	TTL   time.Duration
	Renew time.Duration // interval of renewals, default 1 s
	// interval at which a waiting process reads the lease, default 100 ms
	Poll time.Duration
	// limit for a database call while acquiring, default 20 s: a transaction of a crashed owner may still hold locks
	TakeoverTimeout time.Duration
	// how long rows are not taken from memory after a write of which the end is not known, default 2 min: longer than a
	// database needs to commit it, or to notice that the connection has ended; see Database.IsAlone
	Doubt time.Duration
	// reports whether an owner is known to have ended; nil: unknown for all
	Dead func(Owner) bool
	// reports whether an owner is known to run, which doubles its time to renew; nil: unknown for all
	Alive func(Owner) bool
	// called before waiting for an owner that may have ended, with the maximum wait; may be nil
	Waiting func(Owner, time.Duration)
}

// Lease is the exclusive right of one process to use the database. Two processes that performed the steps of the same
// servers would perform each step twice.
type Lease struct {
	db      *sqldb.DB
	self    Owner
	options Options
	client  *clientLease

	once    sync.Once
	lost    chan struct{} // closed after takenBy is set
	takenBy Owner

	running atomic.Int32 // database calls in progress
}

// Check returns nil while this process may act outside the database. The fault is Unavailable: the lease was not
// renewed in time, and another process may take it soon or has taken it. Check is called immediately before anything
// is sent to another service.
func (l *Lease) Check() error { return l.client.check() }

// Bind returns a context that ends with ctx, and with the client's lease if that ends first. stop releases it.
func (l *Lease) Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc) {
	return l.client.bind(ctx)
}

// waitAndAcquire waits until the lease is acquired or its owner renews it.
func (l *Lease) waitAndAcquire(ctx context.Context) error {
	var first leaseView
	var since time.Time
	for {
		now, err := l.observe(ctx)
		if err != nil {
			return err
		}
		// The clock of the database may have been changed, so expired is not sufficient: the owner stops acting after
		// the term of its client lease without a renewal.
		waits, patience, over := !since.IsZero(), l.options.TTL, now.expiry == released
		if now.expired {
			patience = l.client.term
		}
		if l.options.Alive(now.owner) { // it probably lacks CPU time
			patience = 2 * l.options.TTL
		}
		if over || l.options.Dead(now.owner) || waits && time.Since(since) > patience {
			acquired, err := l.acquire(ctx, now)
			if err != nil || acquired {
				return err
			}
			continue // another process was faster, or the owner has renewed: observe again
		}
		if waits && (now.owner.Instance != first.owner.Instance || now.expiry != first.expiry) {
			return fault.New(fault.Conflict, "compute's database is in use by another berth: %s; end that one first "+
				"(only one `berth compute` or `berth up` can use a database), "+
				"or name another database in [database] connection", now.owner)
		}
		if !waits {
			first, since = now, time.Now()
			l.options.Waiting(now.owner, patience)
		}
		if backoff.Sleep(ctx, l.options.Poll) != nil {
			return fault.New(fault.Unavailable,
				"stopped while waiting for compute's database, which %s has not released", now.owner)
		}
	}
}

// Keep renews the lease until ctx ends, and then returns nil. If another process has acquired it, Keep returns a fault
// that names that process; the program must end then. A failed renewal is repeated: the lease is lost only if another
// process acquires it.
func (l *Lease) Keep(ctx context.Context) error {
	tick := time.NewTicker(l.options.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.lost:
			return fault.Wrap("", l.setLost(l.takenBy))
		case <-tick.C:
		}
		// The error is not needed: a loss closes l.lost, and other failures are repeated.
		_ = l.renew(ctx)
	}
}

// maxPendingRenewals is the number of unanswered database calls at which no further renewal is sent.
const maxPendingRenewals = 8

// renew sends one renewal. It returns after at most the term of the client's lease, also if the database does not
// answer; the next renewal then uses another connection.
func (l *Lease) renew(ctx context.Context) error {
	if l.running.Load() >= maxPendingRenewals {
		return fault.New(fault.Unavailable, "%d renewals of the lease have not been answered", maxPendingRenewals)
	}
	var sent time.Time // set by the last run of the function, which is the committed one
	return l.within(ctx, max(l.client.term, l.options.Renew), func(ctx context.Context) error {
		err := l.db.Write(ctx, l.fence(ctx, true, func(tx *sqldb.Tx) error {
			sent = time.Now()
			return l.extend(ctx, tx)
		}))
		if err == nil {
			l.client.renewed(sent)
		}
		return err
	})
}

// within calls do with a context that ends after the limit. If do does not return soon after that, within returns
// fault.Unavailable without it: a COMMIT on a dead connection cannot be cancelled.
func (l *Lease) within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	done := make(chan error, 1)
	l.running.Add(1)
	go func() {
		defer cancel()
		defer l.running.Add(-1)
		done <- do(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(l.options.Renew):
	}
	return fault.New(fault.Unavailable,
		"compute's database has not answered for %s; check the database and the connection to it", limit)
}

// Release releases the lease, so that the next process need not wait. It returns nil if another process owns the lease.
func (l *Lease) Release(ctx context.Context) error {
	l.client.end()
	return fault.Wrap("", l.within(ctx, l.options.TTL, func(ctx context.Context) error {
		return l.db.Write(ctx, func(tx *sqldb.Tx) error {
			held, err := readOwner(ctx, tx, true)
			if err != nil || held.Instance != l.self.Instance {
				return err
			}
			_, err = tx.Exec(ctx, `UPDATE compute_lease SET expiry = ? WHERE one = 1`, released)
			return err
		})
	}))
}

// released is the expiry of a lease that was released or never acquired.
const released = 0

// leaseView is the lease as read from the database.
type leaseView struct {
	owner   Owner
	expiry  int64 // microseconds since 1970 by the database's clock
	expired bool  // by that clock
}

// observe reads the lease.
func (l *Lease) observe(ctx context.Context) (leaseView, error) {
	seen := make(chan leaseView, 1)
	err := l.within(ctx, l.options.TakeoverTimeout, func(ctx context.Context) error {
		var out leaseView
		err := l.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
			var now int64
			if out.owner, err = readOwner(ctx, tx, false); err != nil {
				return err
			}
			query := `SELECT expiry, ` + clock(tx) + ` FROM compute_lease WHERE one = 1`
			err = tx.QueryRow(ctx, query).Scan(&out.expiry, &now)
			out.expired = out.expiry <= now
			return err
		})
		seen <- out
		return err
	})
	if err != nil {
		return leaseView{}, err
	}
	return <-seen, nil
}

// acquire makes this process the owner if the lease is still as seen. It returns false if the lease has changed.
func (l *Lease) acquire(ctx context.Context, seen leaseView) (acquired bool, err error) {
	began, sent := time.Now(), make(chan time.Time, 1)
	err = l.within(ctx, l.options.TakeoverTimeout, func(ctx context.Context) error {
		var last time.Time
		err := l.db.Write(ctx, func(tx *sqldb.Tx) error { return l.writeOwner(ctx, tx, seen, &last) })
		sent <- last
		return err
	})
	switch {
	case err == nil:
		l.client.renewed(<-sent)
		return true, nil
	case errors.Is(err, errRenewed):
		return false, nil
	case time.Since(began) >= l.options.TakeoverTimeout && ctx.Err() == nil:
		return false, fault.New(fault.Unavailable, "compute's database still waits for a transaction of %s; "+
			"try again later, or end its connection to the database server: %w", seen.owner, err)
	}
	return false, err
}

// writeOwner is the transaction of acquire. It sets sent to the time from which the client's lease counts.
func (l *Lease) writeOwner(ctx context.Context, tx *sqldb.Tx, seen leaseView, sent *time.Time) error {
	tx.Forget(ownerFact)
	done, err := tx.Exec(ctx, `UPDATE compute_lease_owner SET instance = ?, host = ?, pid = ?, boot_id = ?,
		lock_id = ?, start_time = ?, since = `+clock(tx)+` WHERE one = 1 AND instance = ?`,
		l.self.Instance, l.self.Host, l.self.PID, l.self.BootID, l.self.LockID, l.self.StartTime, seen.owner.Instance)
	if err := sqldb.RequireRow(done, err, errRenewed); err != nil {
		return err
	}
	*sent = time.Now()
	done, err = tx.Exec(ctx, `UPDATE compute_lease SET expiry = `+clock(tx)+` + ? WHERE one = 1 AND expiry = ?`,
		l.options.TTL.Microseconds(), seen.expiry)
	return sqldb.RequireRow(done, err, errRenewed)
}

// errRenewed rolls back acquire: the owner has renewed the lease, or another process was faster.
var errRenewed = errors.New("the lease has changed")

// extend renews the lease. A lease that was released stays released, also if a renewal is executed late.
func (l *Lease) extend(ctx context.Context, tx *sqldb.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE compute_lease SET expiry = `+clock(tx)+` + ? WHERE one = 1 AND expiry <> ?`,
		l.options.TTL.Microseconds(), released)
	return err
}

// readOwner reads the owner of the lease. With lock no other process can acquire the lease before the transaction ends.
// The expiry is in a separate table, so renewals do not wait for this lock.
func readOwner(ctx context.Context, tx *sqldb.Tx, lock bool) (h Owner, err error) {
	query := `SELECT instance, host, pid, boot_id, lock_id, start_time, since FROM compute_lease_owner WHERE one = 1`
	switch {
	case !lock: // SQLite needs no lock: it has one writer at a time
	case tx.Dialect == sqldb.MySQL:
		query += ` LOCK IN SHARE MODE`
	case tx.Dialect == sqldb.PostgreSQL:
		query += ` FOR SHARE`
	}
	var since int64
	err = tx.QueryRow(ctx, query).Scan(&h.Instance, &h.Host, &h.PID, &h.BootID, &h.LockID, &h.StartTime, &since)
	h.Since = time.UnixMicro(since).UTC()
	return h, err
}

// clock returns the SQL expression of the database's clock: whole microseconds since 1970.
func clock(tx *sqldb.Tx) string {
	switch tx.Dialect {
	case sqldb.MySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	case sqldb.PostgreSQL:
		return `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`
	}
	return `CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)` // precision: milliseconds
}

// withDefaults returns the options with defaults for zero fields.
func (t Options) withDefaults() Options {
	t.TTL = cmp.Or(t.TTL, 6*time.Second)
	t.Renew = cmp.Or(t.Renew, time.Second)
	t.Poll = cmp.Or(t.Poll, 100*time.Millisecond)
	t.TakeoverTimeout = cmp.Or(t.TakeoverTimeout, 20*time.Second)
	t.Doubt = cmp.Or(t.Doubt, 2*time.Minute)
	if t.Dead == nil {
		t.Dead = func(Owner) bool { return false }
	}
	if t.Alive == nil {
		t.Alive = func(Owner) bool { return false }
	}
	if t.Waiting == nil {
		t.Waiting = func(Owner, time.Duration) {}
	}
	return t
}

// ownerFact is the instance of the owner, as read in a transaction of SQLite that several functions share. Its lock
// keeps other processes from writing until its COMMIT, so the owner is read once.
const ownerFact = "owner of the lease"

// fence returns the function of a transaction with a preceding check that this process owns the lease. With lock no
// other process can acquire the lease before the transaction ends.
func (l *Lease) fence(ctx context.Context, lock bool, fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		if owner, known := tx.Remembered(ownerFact); known && owner == l.self.Instance {
			return fn(tx)
		}
		held, err := readOwner(ctx, tx, lock)
		if err != nil {
			return err
		}
		if held.Instance != l.self.Instance {
			return l.setLost(held)
		}
		tx.Remember(ownerFact, held.Instance)
		return fn(tx)
	}
}

// setLost records the new owner and returns the fault that names it.
func (l *Lease) setLost(by Owner) error {
	l.once.Do(func() {
		l.takenBy = by
		l.client.end()
		close(l.lost)
	})
	<-l.lost
	return fault.New(fault.Unavailable, "another process has taken over compute's database (%s): "+
		"this process did not renew its lease for %s, and ends", l.takenBy, l.options.TTL)
}
