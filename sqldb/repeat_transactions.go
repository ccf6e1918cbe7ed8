package sqldb

import (
	"context"
	"errors"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

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

// WriteUpTo is Write with another number of attempts; below 1 it is 1. For the lock of another process on an SQLite
// database there are at most 10.
func (db *DB) WriteUpTo(ctx context.Context, attempts int, fn func(*Tx) error) error {
	if err := db.rejectNested("sqldb.Write"); err != nil {
		return err
	}
	return db.repeat(ctx, attempts, func() error {
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
	if err := db.rejectNested("sqldb.Read"); err != nil {
		return err
	}
	return db.repeat(ctx, maxAttempts, func() error { return db.transact(ctx, true, fn) })
}

// repeat runs once until it succeeds, fails permanently or has used its attempts.
func (db *DB) repeat(ctx context.Context, attempts int, once func() error) error {
	for attempt := 1; ; attempt++ {
		err := once()
		if err == nil || !isRepeatable(err) {
			return withRemedy(contextError(ctx, err))
		}
		if attempt >= min(attempts, maxForeignKeyAttempts) && isForeignKeyError(err) {
			return fault.New(fault.Internal, "each attempt fails because of rows that refer to each other: %w", err)
		}
		if db.file != "" && isBusy(err) { // a stopped process does not release the lock
			if h := findHolder(db.file); h.stopped || attempt >= min(attempts, maxAttempts) {
				return h.locked(db.file, err)
			}
		}
		if attempt >= attempts {
			if asked, ok := errors.AsType[*retry](err); ok {
				return asked.err
			}
			return fault.New(fault.Unavailable, "gave up after %d attempts, try again later: %w", attempt, err)
		}
		if backoff.Sleep(ctx, db.backoff.Wait(attempt)) != nil {
			return fault.New(fault.Unavailable, "stopped while repeating (%w) after: %v", context.Cause(ctx), err)
		}
	}
}

// contextError returns the error of a transaction whose context ended before COMMIT, with a kind.
func contextError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || IsUnknown(err) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fault.New(fault.Unavailable, "%w; nothing was changed", context.Cause(ctx))
}

// transact runs one attempt on a pooled connection.
func (db *DB) transact(ctx context.Context, readOnly bool, fn func(*Tx) error) error {
	called := time.Now()
	conn, err := db.begin(ctx, readOnly)
	if err != nil {
		return beginError(err, time.Since(called))
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
		return &retry{unavailable(tx.lost)}
	case err != nil && lost(err): // while rows were read
		return &retry{unavailable(err)}
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fault.Wrap(fault.Unavailable, context.Cause(ctx))
	case readOnly:
		return nil
	}
	open = false
	if err := commit(ctx, conn); err != nil {
		discard(conn) // the transaction may still be open there, and MySQL's next BEGIN would commit it
		return commitError(err)
	}
	return nil
}

// rejectNested returns an error for a transaction inside another one on a database in memory, where all transactions
// share one connection.
func (db *DB) rejectNested(op string) error {
	if db.writer != nil && db.writer.pool == db.pool && within(runsBatched, runsPooled, runsSingle) {
		return nested(op)
	}
	return nil
}
