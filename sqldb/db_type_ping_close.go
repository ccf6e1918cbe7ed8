// Package sqldb opens SQLite, MariaDB (MySQL) and PostgreSQL databases from SQLAlchemy URLs and offers one kind of
// transaction for all three.
//
// A store passes a function to Write, which returns nil only after the COMMIT is durable. After a deadlock, a
// serialisation failure or a busy file the function runs again, so it must not keep results of an earlier run. Read
// runs a function on one consistent snapshot. Statements use `?` placeholders on every dialect; where the dialects
// differ, the store checks Tx.Dialect.
//
// On SQLite all writes use one connection with group commits: many waiting transactions share one COMMIT, and one that
// fails is rolled back alone (see sqlite_write_batches.go).
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

const (
	maxAttempts = 10                     // how often one Write or Read may run its function
	firstPause  = 4 * time.Millisecond   // the pause after the first failed attempt; it doubles
	maxPause    = 500 * time.Millisecond // the longest pause between two attempts
)

// DB is an open database. It is safe for concurrent use; Close it when done.
type DB struct {
	Dialect  Dialect
	Narrowed []string // files of an SQLite database whose access rights for other users Open has removed

	file   string  // of SQLite; empty in memory
	pool   *sql.DB // reads; on MySQL and PostgreSQL writes too
	writer *writer // SQLite only: the one connection that writes

	notifier notifier // nil: the database passes no notifications

	backoff backoff.Exponential // the waits between the attempts of one Write or Read

	guard  *guard    // checks an SQLite database's files; nil if it has none
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

// Ping returns nil if the database answers and is not a node of a Galera cluster that has lost the others.
func (db *DB) Ping(ctx context.Context) error {
	if db.Dialect == MySQL { // such a node answers a ping, but no SELECT
		var one int
		return fault.Wrap(fault.Unavailable, db.pool.QueryRowContext(ctx, "SELECT 1").Scan(&one))
	}
	return fault.Wrap(fault.Unavailable, db.pool.PingContext(ctx))
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
	return fault.Wrap(fault.Internal, errors.Join(err, db.pool.Close()))
}
