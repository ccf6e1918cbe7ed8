package sqldb

import (
	"context"
)

// DataVersion returns a number that changes when another process, or another DB on the same file, has committed to
// the database. Commits of this DB do not change it, except those whose outcome Write did not report because they took
// too long: the number changes when they have ended. ok is false if the database has no such number: only SQLite has
// one.
func (db *DB) DataVersion(ctx context.Context) (number int64, ok bool, err error) {
	if db.writer == nil {
		return 0, false, nil
	}
	err = db.Write(ctx, func(tx *Tx) error {
		number, ok, err = tx.DataVersion(ctx)
		return err
	})
	return number, ok, err
}

// DataVersion returns the number of DB.DataVersion inside a transaction of Write. In SQLite no other process commits
// before the transaction ends.
func (tx *Tx) DataVersion(ctx context.Context) (number int64, ok bool, err error) {
	if tx.Dialect != SQLite || tx.readOnly {
		return 0, false, nil
	}
	// of the writing connection, so its own commits do not count; SQLite's number has 32 bits
	if err = tx.QueryRow(ctx, "PRAGMA data_version").Scan(&number); err != nil {
		return 0, false, err
	}
	return tx.late()<<32 + number, true, nil
}
