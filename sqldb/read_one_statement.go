package sqldb

import (
	"context"

	"github.com/openberth/berth/fault"
)

// ReadOne is Read for a function that runs one statement. The database gives a statement a consistent snapshot, so it
// needs no BEGIN and no ROLLBACK: two statements less on SQLite, two round trips less on a database server. A second
// statement fails with the fault Internal.
func (db *DB) ReadOne(ctx context.Context, fn func(*Tx) error) error {
	if err := db.Available(); err != nil {
		return err
	}
	if err := db.rejectNested("sqldb.ReadOne"); err != nil {
		return err
	}
	return db.repeat(ctx, maxAttempts, func() error { return db.readOne(ctx, fn) })
}

// readOne runs one attempt of ReadOne. If its connection is dead it runs the function again in a transaction, because
// begin finds a connection that is not.
func (db *DB) readOne(ctx context.Context, fn func(*Tx) error) error {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return beginError(err, 0)
	}
	tx := &Tx{Dialect: db.Dialect, on: conn, readOnly: true, single: true}
	defer conn.Close()
	defer tx.finish() // also after a panic, and before the connection is closed
	err = fn(tx)
	tx.finish()
	switch {
	case tx.excess != nil:
		return tx.excess
	case tx.lost != nil, err != nil && lost(err):
		discard(conn)
		return db.transact(ctx, true, fn)
	case err == nil && ctx.Err() != nil:
		return fault.Wrap(fault.Unavailable, context.Cause(ctx))
	}
	return err
}

// countStatement records a statement of ReadOne. It returns an error for a second one.
func (tx *Tx) countStatement() error {
	if tx.single && tx.used {
		tx.excess = fault.New(fault.Internal, "a function of ReadOne runs a second statement; use Read")
		return tx.excess
	}
	tx.used = true
	return nil
}
