// Package sqldb opens SQLite, MariaDB (MySQL) and PostgreSQL databases from SQLAlchemy URLs and offers one kind of
// transaction for all three.
//
// A store passes a function to Write, which returns nil only after the COMMIT is durable. After a deadlock, a
// serialisation failure or a busy file the function runs again, so it must not keep results of an earlier run. Read
// runs a function on one consistent snapshot. Statements use `?` placeholders on every dialect; where the dialects
// differ, the store checks Tx.Dialect.
//
// On SQLite all writes use one connection with group commits: many waiting transactions share one COMMIT. Each has a
// SAVEPOINT of its own, so one that fails is rolled back alone (see commit.go).
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// Dialect is the SQL dialect of a database. MariaDB and MySQL are one dialect.
type Dialect string

// The three dialects.
const (
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql"
	PostgreSQL Dialect = "postgresql"
)

const (
	maxAttempts = 10                     // how often one Write or Read may run its function
	firstWait   = 4 * time.Millisecond   // the wait after the first failed attempt; it doubles
	longestWait = 500 * time.Millisecond // the longest wait between two attempts
	longBegin   = 5 * time.Second        // a BEGIN that failed after this time is not repeated
)

// DB is an open database. It is safe for concurrent use; Close it when done.
type DB struct {
	Dialect  Dialect
	Narrowed []string // files of an SQLite database whose access rights for other users Open has removed

	file   string  // of SQLite; empty in memory
	pool   *sql.DB // reads; on MySQL and PostgreSQL writes too
	writer *writer // SQLite only: the one connection that writes

	backoff backoff.Exponential // the waits between the attempts of one Write or Read

	guard  *guard    // checks an SQLite database's files; nil: there are none
	anchor *sql.Conn // stays open as long as the database: SQLite deletes the log with its last connection
}

// Lost returns a channel that is closed after a file of an SQLite database was deleted, moved or replaced, and its
// content has been saved as far as possible. All transactions fail from shortly before that. For other databases it
// returns nil, which is never closed.
func (db *DB) Lost() <-chan struct{} {
	if db.guard == nil {
		return nil
	}
	return db.guard.done
}

// Loss returns why Lost was closed, where the saved content is and what the operator must do. It returns nil while
// Lost is not closed.
func (db *DB) Loss() error {
	select {
	case <-db.Lost():
		return db.guard.loss
	default:
		return nil
	}
}

// Available returns nil, or an error of kind Unavailable if the database has lost a file, so that no transaction can
// succeed.
func (db *DB) Available() error { return db.guard.lost() }

// Write runs fn in one transaction and returns nil only after its COMMIT has succeeded.
//
// If fn returns an error or panics, its changes are rolled back. If the database aborts the transaction
// (IsRetryable), or fn returns Retry(err), it runs again after a short random pause, at most 10 times; then the error
// is a fault Unavailable, or the err of Retry. A transaction whose connection is lost during COMMIT is never
// repeated: the fault Unavailable reports that the outcome is unknown. fn must not call Write or Read of the same DB,
// and must not keep tx. On SQLite a Write inside the function of a Write would wait for itself: it returns the fault
// Internal instead.
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

// DataVersion returns a number that changes when another process, or another DB on the same file, has committed to
// the database. Commits of this DB do not change it. ok is false if the database has no such number: only SQLite has
// one.
func (db *DB) DataVersion(ctx context.Context) (number int64, ok bool, err error) {
	if db.writer == nil {
		return 0, false, nil
	}
	err = db.Write(ctx, func(tx *Tx) error {
		// of the writing connection, so its own commits do not count
		return tx.QueryRow(ctx, "PRAGMA data_version").Scan(&number)
	})
	return number, err == nil, err
}

// Ping returns nil if the database answers and is not a node of a Galera cluster that has lost the others.
func (db *DB) Ping(ctx context.Context) error {
	if db.Dialect == MySQL { // such a node answers a ping, but no SELECT
		var one int
		return fault.Wrap(fault.Unavailable, "sqldb.Ping", db.pool.QueryRowContext(ctx, "SELECT 1").Scan(&one))
	}
	return fault.Wrap(fault.Unavailable, "sqldb.Ping", db.pool.PingContext(ctx))
}

// Close waits for running transactions, refuses new ones and closes the connections.
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

// repeat runs once until it succeeds, fails permanently or has used its attempts.
func (db *DB) repeat(ctx context.Context, op string, attempts int, once func() error) error {
	for attempt := 1; ; attempt++ {
		err := once()
		if err == nil || !again(err) {
			return withRemedy(op, stopped(ctx, op, err))
		}
		if attempt >= min(attempts, mostReferred) && isReferred(err) {
			return fault.New(fault.Internal, op, "the database refuses it again and again, for rows that refer to "+
				"each other: %w", err)
		}
		if db.file != "" && isBusy(err) { // a stopped process does not release the lock
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
		if backoff.Sleep(ctx, db.backoff.Wait(attempt)) != nil {
			return fault.New(fault.Unavailable, op, "stopped while repeating (%w) after: %v", context.Cause(ctx), err)
		}
	}
}

// stopped returns the error of a transaction whose context ended before COMMIT, with a kind.
func stopped(ctx context.Context, op string, err error) error {
	if err == nil || ctx.Err() == nil || IsUnknown(err) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fault.New(fault.Unavailable, op, "%w; nothing was changed", context.Cause(ctx))
}

// transact runs one attempt on a pooled connection.
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
	case tx.lost != nil: // the server rolls back without a COMMIT
		return &retry{unavailable("sqldb.transact", tx.lost)}
	case err != nil && lost(err): // while rows were read
		return &retry{unavailable("sqldb.transact", err)}
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

// begun returns an error of BEGIN with a kind. Nothing has happened yet, so BEGIN may be repeated after a lost
// connection. The same is true if a node stopped waiting for its cluster early, as when the cluster changes; but
// after a long wait it is not repeated.
func begun(err error, took time.Duration) error {
	if lost(err) && took > longBegin { // the server may have stalled
		return fault.New(fault.Unavailable, "sqldb.begin", "the database has not answered for %s; nothing was "+
			"changed, "+
			"try again later: %v",
			took.Round(time.Second), err)
	}
	if behind(err) && took > longBegin { // without its cause, so that it is not repeated
		return fault.New(fault.Unavailable, "sqldb.begin",
			"this node of the database cluster has not caught up with the others in time, try again later: %v", err)
	}
	if lost(err) || behind(err) {
		return &retry{unavailable("sqldb.begin", err)}
	}
	return fault.Wrap(fault.Unavailable, "sqldb.begin", err)
}

// unavailable returns the fault for a server that was lost before COMMIT: nothing was changed.
func unavailable(op string, err error) error {
	return fault.New(fault.Unavailable, op, "the database is not there now, or its node has left the cluster; "+
		"nothing was changed, try again later: %w", err)
}

// committed returns an error of COMMIT with a kind. A COMMIT that was not sent may be repeated. A refusal by the
// server is certain and keeps its cause. Any other error, such as a timeout of TCP, leaves the outcome unknown.
func committed(err error) error {
	switch {
	case errors.Is(err, driver.ErrBadConn):
		return &retry{fault.Wrap(fault.Unavailable, "sqldb.commit", err)}
	case refusedCommit(err):
		return fault.Wrap(fault.Unavailable, "sqldb.commit", err)
	}
	return unknownOutcome("the connection broke during COMMIT", err)
}

// unknownOutcome returns the error of a COMMIT that may or may not have been executed.
func unknownOutcome(what string, err error) error {
	return &unknown{fault.New(fault.Unavailable, "sqldb.commit",
		"%s, it is unknown whether the change was kept; read before repeating: %w", what, err).WithCode(CodeUnknown)}
}
