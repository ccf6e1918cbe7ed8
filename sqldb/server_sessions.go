package sqldb

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// Sessions returns how many connections a database of a server has beside the one that asks. Those of other users are
// seen only with the rights for it. A server may list a connection for a moment after it was closed, so one that is
// gone within a second does not count.
func Sessions(ctx context.Context, l Location) (n int, err error) {
	query := "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
	if l.Dialect == PostgreSQL {
		query = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() " +
			"AND backend_type = 'client backend'"
	}
	db, err := Open(ctx, l.URL)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.pool.Conn(ctx) // one connection does not count itself
	if err != nil {
		return 0, fault.Wrap(fault.Unavailable, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for range 10 {
		err := conn.QueryRowContext(ctx, query).Scan(&n)
		if err != nil || n == 0 || backoff.Sleep(ctx, 100*time.Millisecond) != nil {
			return n, fault.Wrap(fault.Unavailable, err)
		}
	}
	return n, nil
}

// Size returns how many bytes the tables of a database of a server take. A dump is smaller or similar.
func Size(ctx context.Context, db *DB) (bytes int64, err error) {
	query := "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables WHERE " +
		"table_schema = DATABASE()"
	if db.Dialect == PostgreSQL {
		query = "SELECT pg_database_size(current_database())"
	}
	err = db.pool.QueryRowContext(ctx, query).Scan(&bytes)
	return bytes, fault.Wrap(fault.Unavailable, err)
}

// Tables returns the names of the tables of a database of a server, sorted.
func Tables(ctx context.Context, l Location) (names []string, err error) {
	db, err := Open(ctx, l.URL)
	if err != nil {
		return nil, err
	}
	err = db.Read(ctx, func(tx *Tx) (err error) {
		names, err = TableNames(ctx, tx)
		return err
	})
	slices.Sort(names)
	return names, errors.Join(err, db.Close())
}
