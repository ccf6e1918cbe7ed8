// Package sqldb is the cellar: it opens SQLite, MariaDB (MySQL) and PostgreSQL from SQLAlchemy URLs
// and gives the stores one kind of transaction over all three.
//
// A store hands Write a function and hears success only after its COMMIT is durable. A deadlock, a
// serialisation failure or a busy file repeats the function, so the function must not keep what an
// earlier run of it left in memory. Read gives one consistent snapshot. Statements are written with
// `?` and look the same on every dialect; where the dialects differ, the store asks Tx.Dialect.
//
// On SQLite all writes pass one connection in group commits: many waiting transactions share one
// COMMIT, each in a SAVEPOINT of its own, so one that fails is undone alone (see commit.go).
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/openberth/berth/fault"
)

// Dialect names the SQL a database speaks. MariaDB and MySQL are one dialect.
type Dialect string

// The three dialects.
const (
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql"
	PostgreSQL Dialect = "postgresql"
)

const (
	maxAttempts = 10                     // how often one Write or Read may run its function
	firstPause  = 4 * time.Millisecond   // the pause after the first failed attempt; it doubles
	longestWait = 500 * time.Millisecond // the longest pause between two attempts
	longBegin   = 5 * time.Second        // a BEGIN that failed after so long is not repeated
)

// DB is an open database. It is safe for concurrent use; Close it when done.
type DB struct {
	Dialect  Dialect
	Narrowed []string // files of an SQLite database that other users could read or write until Open took these rights away

	file   string  // SQLite's; empty in memory
	pool   *sql.DB // reads; on MySQL and PostgreSQL writes too
	writer *writer // SQLite only: the one connection that writes
	jitter func(time.Duration) time.Duration

	guard  *guard    // of an SQLite database's files; nil: it has none
	anchor *sql.Conn // stays open as long as the database: SQLite deletes the log with its last connection
}

// Lost returns a channel that is closed when a file of an SQLite database was deleted, moved or replaced, and its
// content has been saved as far as possible. From a moment before that, all transactions fail. Nil, which is never
// closed, for other databases.
func (db *DB) Lost() <-chan struct{} {
	if db.guard == nil {
		return nil
	}
	return db.guard.done
}

// Loss returns why Lost was closed, where the content is now and what the operator must do; nil when Lost is not
// closed.
func (db *DB) Loss() error {
	select {
	case <-db.Lost():
		return db.guard.loss
	default:
		return nil
	}
}

// Available returns nil, or an error of kind Unavailable when the database has lost a file and no transaction can
// succeed any more.
func (db *DB) Available() error { return db.guard.lost() }

// Write runs fn in one transaction and returns nil only after its COMMIT succeeded.
//
// When fn returns an error or panics, nothing it did remains. A transaction that the database gave up (IsRetryable), or
// for which fn returned Retry(err), is run again after a short random pause, at most 10 times; then the error is a
// fault Unavailable, or the err inside Retry. A connection lost during COMMIT is never repeated: the fault Unavailable
// says that the outcome is unknown. fn must not call Write or Read of the same DB, and must not keep tx. On SQLite a
// Write inside the function of a Write would wait for itself: it returns the fault Internal instead.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	return db.WriteUpTo(ctx, maxAttempts, fn)
}

// WriteUpTo is Write with another number of attempts; below 1 it is 1.
func (db *DB) WriteUpTo(ctx context.Context, attempts int, fn func(*Tx) error) error {
	if err := db.alone("sqldb.Write"); err != nil {
		return err
	}
	return db.repeat(ctx, "sqldb.Write", attempts, func() error {
		if db.writer != nil {
			return db.writer.write(ctx, fn)
		}
		return db.transact(ctx, false, fn)
	})
}

// Read runs fn on one consistent snapshot of the database and writes nothing; fn may run more than once.
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	if err := db.Available(); err != nil {
		return err
	}
	if err := db.alone("sqldb.Read"); err != nil {
		return err
	}
	return db.repeat(ctx, "sqldb.Read", maxAttempts, func() error { return db.transact(ctx, true, fn) })
}

// Foreign gives a number that changes when somebody else has committed to the database: another process, or another DB on the
// same file. Own writes leave it. ok is false where a database has no such number; SQLite alone has.
func (db *DB) Foreign(ctx context.Context) (number int64, ok bool, err error) {
	if db.writer == nil {
		return 0, false, nil
	}
	err = db.Write(ctx, func(tx *Tx) error {
		return tx.QueryRow(ctx, "PRAGMA data_version").Scan(&number) // of the writing connection, so its own do not count
	})
	return number, err == nil, err
}

// Ping asks the database for an answer: nil when it is there, and is not a node of a Galera cluster that has lost the others.
func (db *DB) Ping(ctx context.Context) error {
	if db.Dialect == MySQL { // such a node answers a ping, but no SELECT
		var one int
		return fault.Wrap(fault.Unavailable, "sqldb.Ping", db.pool.QueryRowContext(ctx, "SELECT 1").Scan(&one))
	}
	return fault.Wrap(fault.Unavailable, "sqldb.Ping", db.pool.PingContext(ctx))
}

// Close lets running transactions finish, refuses new ones and closes the connections.
func (db *DB) Close() error {
	db.guard.close()
	var err error
	if db.writer != nil {
		err = db.writer.close()
	}
	if db.anchor != nil {
		_ = db.anchor.Close() // fails only when it is closed already
	}
	return fault.Wrap(fault.Internal, "sqldb.Close", errors.Join(err, db.pool.Close()))
}

// repeat runs once until it succeeds, fails for good or has used its attempts.
func (db *DB) repeat(ctx context.Context, op string, attempts int, once func() error) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := once()
		if err == nil || !again(err) {
			return mended(op, stopped(ctx, op, err))
		}
		if attempt >= min(attempts, mostReferred) && isReferred(err) {
			return fault.New(fault.Internal, op, "the database refuses it again and again, for rows that refer to each other: %w", err)
		}
		if db.file != "" && isBusy(err) { // a stopped process does not give the lock back
			if h := findHolder(db.file); h.stopped || attempt >= attempts {
				return h.locked(op, db.file, err)
			}
		}
		if attempt >= attempts {
			if asked, ok := errors.AsType[*retry](err); ok {
				return asked.err
			}
			return fault.New(fault.Unavailable, op, "gave up after %d attempts, try again later: %w", attempt, err)
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, op, "stopped while repeating (%w) after: %v", context.Cause(ctx), err)
		case <-time.After(db.jitter(pause)):
		}
		pause = min(2*pause, longestWait)
	}
}

// stopped gives an error its kind that a transaction has because its context ended before COMMIT.
func stopped(ctx context.Context, op string, err error) error {
	if err == nil || ctx.Err() == nil || IsUnknown(err) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fault.New(fault.Unavailable, op, "%w; nothing was changed", context.Cause(ctx))
}

// transact is one attempt on a pooled connection.
func (db *DB) transact(ctx context.Context, readOnly bool, fn func(*Tx) error) error {
	called := time.Now()
	conn, err := db.begin(ctx, readOnly)
	if err != nil {
		return begun(err, time.Since(called))
	}
	tx := &Tx{Dialect: db.Dialect, on: conn, readOnly: readOnly}
	open := true
	defer func() { // also after a panic
		if open {
			db.rollback(ctx, conn)
		}
		conn.Close()
	}()
	err = fn(tx)
	tx.finish()
	switch {
	case tx.lost != nil: // the server rolls back what it heard no COMMIT for
		return &retry{absent("sqldb.transact", tx.lost)}
	case err != nil && lost(err): // while rows were read
		return &retry{absent("sqldb.transact", err)}
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fault.Wrap(fault.Unavailable, "sqldb.transact", context.Cause(ctx))
	case readOnly:
		return nil
	}
	open = false
	if err := commit(ctx, conn); err != nil {
		discard(conn) // the transaction may still be open there, and MySQL's next BEGIN would commit it
		return committed(err)
	}
	return nil
}

// begun gives an error of BEGIN its kind. Nothing has happened yet, so a lost connection may be repeated; so may a node's wait for its cluster that
// ended early, as it does when the cluster changes, but a long one is enough.
func begun(err error, took time.Duration) error {
	if lost(err) && took > longBegin { // likewise: the server may have stalled
		return fault.New(fault.Unavailable, "sqldb.begin", "the database has not answered for %s; nothing was changed, "+
			"try again later: %v",
			took.Round(time.Second), err)
	}
	if behind(err) && took > longBegin { // without its cause, so that it is not repeated
		return fault.New(fault.Unavailable, "sqldb.begin",
			"this node of the database cluster has not caught up with the others in time, try again later: %v", err)
	}
	if lost(err) || behind(err) {
		return &retry{absent("sqldb.begin", err)}
	}
	return fault.Wrap(fault.Unavailable, "sqldb.begin", err)
}

// absent is the fault of a server that was lost before COMMIT: nothing was kept.
func absent(op string, err error) error {
	return fault.New(fault.Unavailable, op, "the database is not there now, or its node has left the cluster; nothing was changed, try again later: %w", err)
}

// committed gives an error of COMMIT its kind. A COMMIT that was not sent may be repeated. A refusal by the server is
// certain and keeps its cause. Any other error, such as a timeout of TCP, leaves the outcome unknown.
func committed(err error) error {
	switch {
	case errors.Is(err, driver.ErrBadConn):
		return &retry{fault.Wrap(fault.Unavailable, "sqldb.commit", err)}
	case refusedCommit(err):
		return fault.Wrap(fault.Unavailable, "sqldb.commit", err)
	}
	return unknownOutcome("the connection broke during COMMIT", err)
}

// unknownOutcome is the error of a COMMIT that may have been carried out or not.
func unknownOutcome(what string, err error) error {
	return &unknown{fault.New(fault.Unavailable, "sqldb.commit",
		"%s, it is unknown whether the change was kept; read before repeating: %w", what, err).WithCode(CodeUnknown)}
}

// randomly spreads a pause over half to one and a half of its length, so that losers do not meet again.
func randomly(pause time.Duration) time.Duration {
	return pause/2 + rand.N(pause)
}
