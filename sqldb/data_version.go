package sqldb

import (
	"context"
)

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
