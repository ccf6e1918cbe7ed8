package sqldb

import (
	"context"
	"errors"

	"github.com/openberth/berth/fault"
)

// Sessions returns how many connections a database of a server has beside the one that asks. Those of other users are
// seen only with the rights for it.
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
	err = db.pool.QueryRowContext(ctx, query).Scan(&n)
	return n, fault.Wrap(fault.Unavailable, err)
}
