package sqldb

import (
	"context"

	"github.com/openberth/berth/backoff"
)

// Open connects to the database of a SQLAlchemy URL and checks that it answers.
//
// sqlite:// is a private database in memory, where Read and Write share one connection. sqlite:///path creates the
// file if it does not exist. No error contains the URL's password.
func Open(ctx context.Context, url string) (*DB, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	db := &DB{Dialect: a.dialect,
		backoff: backoff.Exponential{First: firstPause, Max: maxPause, Jitter: backoff.Around}}
	switch a.dialect {
	case SQLite:
		err = db.openSQLite(ctx, a)
	case MySQL:
		err = db.openMySQL(a)
	case PostgreSQL:
		err = db.openPostgreSQL(a)
	}
	if err != nil {
		return nil, err
	}
	if err := db.pool.PingContext(ctx); err != nil {
		db.Close()
		return nil, a.openError(err)
	}
	return db, nil
}
