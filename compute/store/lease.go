package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Holder is a process that works on compute's database.
type LeaseOwner struct {
	Instance     string // of this life of the process; never used again
	Host         string // name of its machine, for people
	PID          int
	ProcessSpace string    // what tells its process ids from those of other machines and containers; empty: unknown
	StartTime    string    // when it began as its machine counts, which tells it from a later process of the same PID; empty: unknown
	Since        time.Time // when it took the database, by the database's clock
}

// String names the process in a sentence.
func (h LeaseOwner) String() string {
	return fmt.Sprintf("process %d on host %s, since %s", h.PID, h.Host, h.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// Terms are how a lease is taken. Zero fields have the defaults.
type LeaseOptions struct {
	TTL             time.Duration                   // how long it lasts without being renewed: 6 s; for its holder two thirds of that
	Renew           time.Duration                   // how often it is renewed: 1 s
	Poll            time.Duration                   // how often one who waits looks again: 100 ms
	TakeoverTimeout time.Duration                   // how long to wait for what the holder before has begun to write, which a machine without power leaves open: 20 s
	Dead            func(LeaseOwner) bool           // whether a holder is known to have ended; nil: of nobody
	Alive           func(LeaseOwner) bool           // whether it is known to run: then it has twice the time to renew; nil: of nobody
	Waiting         func(LeaseOwner, time.Duration) // called before waiting, for so long at most, for a holder that may have ended; nil: nobody is told
}

// Lease is the hold of one process on the database. Two that carried out the same servers' steps would do everything twice.
type Lease struct {
	db     *sqldb.DB
	self     LeaseOwner
	options  LeaseOptions
	client *clientLease

	once sync.Once
	lost chan struct{} // closed after by is set
	takenBy   LeaseOwner

	running atomic.Int32 // calls of the database that have not returned
}

// Check returns nil while this process may act outside the database. The fault is Unavailable: the lease was not
// renewed in time, and another process may take it soon or has taken it. Check is called immediately before anything
// is sent to another service.
func (l *Lease) Check() error { return l.client.check() }

// Bind returns a context that ends with ctx, and with the client's lease if that ends first. stop releases it.
func (l *Lease) Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc) {
	return l.client.bind(ctx)
}

// fenced is the database as the store sees it. Once it is held, each transaction first sees that it still is, and by this process: one that was
// stopped for so long that another has taken over neither changes anything here nor reads anything. Lease.Check guards
// what it sends to other services.
type fencedDB struct {
	db    *sqldb.DB
	mu    sync.RWMutex
	lease *Lease // nil: whoever opens it may use it
}

// Write is that of sqldb.DB. Until its end nobody takes the lease.
func (f *fencedDB) Write(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return f.db.Write(ctx, f.withFence(ctx, true, fn))
}

// Read is that of sqldb.DB.
func (f *fencedDB) Read(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return f.db.Read(ctx, f.withFence(ctx, false, fn))
}

func (f *fencedDB) withFence(ctx context.Context, lock bool, fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.lease == nil {
		return fn
	}
	return f.lease.fence(ctx, lock, fn)
}

// around makes a transaction's function see first that the lease is still this process's.
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

// lose notes who has the database now, and is the fault that says so.
func (l *Lease) setLost(by LeaseOwner) error {
	l.once.Do(func() {
		l.takenBy = by
		l.client.end()
		close(l.lost)
	})
	<-l.lost
	return fault.New(fault.Unavailable, "", "compute's database is in other hands (%s): this process did not renew its hold for %s, and ends", l.takenBy, l.options.TTL)
}

// Hold takes the database for this process; from then on the store refuses all once another process has it. A holder that is dead, or has let
// its lease end, is followed at once; one that may have died is waited for as long as a lease lives. fault.Conflict names the holder that is
// alive: it renews its lease. Keep must run as long as the store is used.
func (s *Store) Hold(ctx context.Context, me LeaseOwner, terms LeaseOptions) (*Lease, error) {
	const op = "Hold"
	l := &Lease{db: s.db.db, self: me, options: terms.withDefaults(), lost: make(chan struct{})}
	l.client = newClientLease(l.options.TTL - l.options.TTL/3)
	if err := l.waitAndAcquire(ctx); err != nil {
		return nil, wrap(op, err)
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.lease = l
	return l, nil
}

// obtain waits until the lease is taken, or somebody else is seen to be alive with it.
func (l *Lease) waitAndAcquire(ctx context.Context) error {
	var first leaseView
	var since time.Time
	for {
		now, err := l.observe(ctx)
		if err != nil {
			return err
		}
		// The database's clock may have been changed, so expired does not suffice: after the term of a client's lease
		// without a renewal the holder has stopped acting.
		waits, patience, over := !since.IsZero(), l.options.TTL, now.expiry == released
		if now.expired {
			patience = l.client.term
		}
		if l.options.Alive(now.owner) { // it has too little CPU time, probably
			patience = 2 * l.options.TTL
		}
		if over || l.options.Dead(now.owner) || waits && time.Since(since) > patience {
			took, err := l.acquire(ctx, now)
			if err != nil || took {
				return err
			}
			continue // somebody was faster, or has renewed: the next look finds him
		}
		if waits && (now.owner.Instance != first.owner.Instance || now.expiry != first.expiry) {
			return fault.New(fault.Conflict, "", "compute's database is in use by another berth: %s; end that one first (only one `berth compute` or `berth up` can work on a database), "+
				"or name another database in [database] connection", now.owner)
		}
		if !waits {
			first, since = now, time.Now()
			l.options.Waiting(now.owner, patience)
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "", "stopped while waiting for compute's database, which had not been given back by %s", now.owner)
		case <-time.After(l.options.Poll):
		}
	}
}

// Keep renews the lease until ctx ends, and then returns nil. When another process has taken it, the fault says which; whoever
// uses the store must end then. A database that does not answer is asked again: as long as nobody else took it, nothing is lost.
func (l *Lease) Keep(ctx context.Context) error {
	tick := time.NewTicker(l.options.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.lost:
			return wrap("Keep", l.setLost(l.takenBy))
		case <-tick.C:
		}
		// Whether it was renewed shows in what comes of it; that it is lost shows in l.lost.
		_ = l.renew(ctx)
	}
}

// mostRunning is how many calls of the database may wait for an answer on dead connections before no renewal is sent.
const maxPendingRenewals = 8

// renew sends one renewal. It returns after the term of the client's lease at the latest, also if the database does not
// answer: the next renewal uses another connection.
func (l *Lease) renew(ctx context.Context) error {
	if l.running.Load() >= maxPendingRenewals {
		return fault.New(fault.Unavailable, "", "%d renewals of the lease have not been answered", maxPendingRenewals)
	}
	var sent time.Time // of the last run of the function, which is the one that is committed
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
	return fault.New(fault.Unavailable, "",
		"compute's database has not answered for %s; check the database and the connection to it", limit)
}

// Release gives the database back, so that the next process need not wait. It is no error when another one has it.
func (l *Lease) Release(ctx context.Context) error {
	l.client.end()
	return wrap("Release", l.within(ctx, l.options.TTL, func(ctx context.Context) error {
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

// released is the expiry of a lease that was given back, or never taken.
const released = 0

// sight is how things stood at one look.
type leaseView struct {
	owner  LeaseOwner
	expiry  int64 // microseconds since 1970 by the database's clock
	expired bool  // by that clock
}

// look reads who has the database.
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

// take writes this process down as the holder, if all is as it was seen.
func (l *Lease) acquire(ctx context.Context, seen leaseView) (took bool, err error) {
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
		return false, fault.New(fault.Unavailable, "", "compute's database still waits for the end of what %s was writing; try again later, or end its connection to the database server: %w",
			seen.owner, err)
	}
	return false, err
}

// put is the transaction of take. It sets sent to the moment from which the client's lease counts.
func (l *Lease) writeOwner(ctx context.Context, tx *sqldb.Tx, seen leaseView, sent *time.Time) error {
	done, err := tx.Exec(ctx, `UPDATE compute_holder SET instance = ?, host = ?, pid = ?, place = ?, birth = ?, since = `+clock(tx)+` WHERE one = 1 AND instance = ?`,
		l.self.Instance, l.self.Host, l.self.PID, l.self.ProcessSpace, l.self.StartTime, seen.owner.Instance)
	if err := requireRow(done, err, errRenewed); err != nil {
		return err
	}
	*sent = time.Now()
	done, err = tx.Exec(ctx, `UPDATE compute_lease SET expiry = `+clock(tx)+` + ? WHERE one = 1 AND expiry = ?`, l.options.TTL.Microseconds(), seen.expiry)
	return requireRow(done, err, errRenewed)
}

// errRenewed undoes a take: the holder has shown that it is alive, or another one was faster.
var errRenewed = errors.New("the lease is not as it was seen")

// extend renews the lease. A lease that was released stays released, also if a renewal is executed late.
func (l *Lease) extend(ctx context.Context, tx *sqldb.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE compute_lease SET expiry = `+clock(tx)+` + ? WHERE one = 1 AND expiry <> ?`,
		l.options.TTL.Microseconds(), released)
	return err
}

// readHolder reads who has the database. With lock nobody else takes it before the transaction ends. Renewing is in a table of its own, so that
// it and all that is locked here need not wait for each other.
func readOwner(ctx context.Context, tx *sqldb.Tx, lock bool) (h LeaseOwner, err error) {
	query := `SELECT instance, host, pid, place, birth, since FROM compute_holder WHERE one = 1`
	switch {
	case !lock: // and SQLite's writer is alone anyway
	case tx.Dialect == sqldb.MySQL:
		query += ` LOCK IN SHARE MODE`
	case tx.Dialect == sqldb.PostgreSQL:
		query += ` FOR SHARE`
	}
	var since int64
	err = tx.QueryRow(ctx, query).Scan(&h.Instance, &h.Host, &h.PID, &h.ProcessSpace, &h.StartTime, &since)
	h.Since = time.UnixMicro(since).UTC()
	return h, err
}

// clock is the database's own clock as SQL: whole microseconds since 1970.
func clock(tx *sqldb.Tx) string {
	switch tx.Dialect {
	case sqldb.MySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	case sqldb.PostgreSQL:
		return `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`
	}
	return `CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)` // to the millisecond
}

func (t LeaseOptions) withDefaults() LeaseOptions {
	t.TTL = cmp.Or(t.TTL, 6*time.Second)
	t.Renew = cmp.Or(t.Renew, time.Second)
	t.Poll = cmp.Or(t.Poll, 100*time.Millisecond)
	t.TakeoverTimeout = cmp.Or(t.TakeoverTimeout, 20*time.Second)
	if t.Dead == nil {
		t.Dead = func(LeaseOwner) bool { return false }
	}
	if t.Alive == nil {
		t.Alive = func(LeaseOwner) bool { return false }
	}
	if t.Waiting == nil {
		t.Waiting = func(LeaseOwner, time.Duration) {}
	}
	return t
}
