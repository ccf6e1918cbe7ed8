package sqldb

import (
	"context"
	"os"
	"time"

	"github.com/openberth/berth/backoff"
)

// DataVersion returns a number that changes when another process, or another DB on the same file, has committed to
// the database. Commits of this DB do not change it. ok is false if the database has no such number: only SQLite has
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
	// of the writing connection, so its own commits do not count
	err = tx.QueryRow(ctx, "PRAGMA data_version").Scan(&number)
	return number, err == nil, err
}

// lookInterval is the time between two looks at the log of an SQLite database.
const lookInterval = 10 * time.Millisecond

// Written calls each once or more often soon after a commit to an SQLite database in a file, by this process or
// another, until ctx ends. For other databases it returns at once.
func (db *DB) Written(ctx context.Context, each func()) {
	if db.file == "" {
		return
	}
	var last time.Time
	for backoff.Sleep(ctx, lookInterval) == nil {
		log, err := os.Stat(db.guard.log)
		if err != nil {
			continue // the file system supports no log, or the file is lost: see guard
		}
		// The times of files are not exact, so another commit can still get the same time.
		if now := log.ModTime(); !now.Equal(last) || time.Since(now) < 2*lookInterval {
			last = now
			each()
		}
	}
}
