package sqldb

import (
	"context"
	"database/sql"
	"net"
	"strconv"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

const (
	serverConns = 32        // connections to a database server; more would only queue inside the server
	idleConns   = 8         // of these, kept open while idle
	connAge     = time.Hour // as oslo.db's connection_recycle_time, below MySQL's wait_timeout
	readConns   = 8         // SQLite's readers at most
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

// place returns a description of the database for messages, without credentials.
func (a address) place() string {
	if a.dialect == SQLite {
		return "SQLite database " + strconv.Quote(a.database)
	}
	host := a.host
	if host == "" {
		host = "this host"
	} else if a.port != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(a.port))
	}
	return string(a.dialect) + " database " + strconv.Quote(a.database) + " on " + host
}

// openError returns the fault for a database that could not be opened, with what to check.
func (a address) openError(err error) error {
	what := remedy(err)
	switch {
	case isBusy(err):
		return findHolder(a.database).locked("sqldb.Open", a.database, err)
	case a.dialect == SQLite && what != "":
		return fault.New(fault.Unavailable, "sqldb.Open", "%s cannot be opened: %w; %s", a.place(), err, what)
	case a.dialect == SQLite:
		return fault.New(fault.Unavailable, "sqldb.Open", "%s cannot be opened: %w; check that its directory "+
			"exists and that Berth's user may write in it", a.place(), err)
	case answered(err):
		return fault.New(fault.Unavailable, "sqldb.Open", "%s rejects the connection: %w; check user, password and "+
			"database in the connection's URL, and the rights of that user", a.place(), err)
	}
	return fault.New(fault.Unavailable, "sqldb.Open", "%s does not answer: %w; check that it runs, and host and "+
		"port in the connection's URL", a.place(), err)
}

func serverPool(pool *sql.DB) *sql.DB {
	pool.SetMaxOpenConns(serverConns)
	pool.SetMaxIdleConns(idleConns)
	pool.SetConnMaxLifetime(connAge)
	return pool
}

// parseNumber parses an option that is a whole number of units, seconds or milliseconds, into slot; without the option
// slot does not change.
func (a address) parseNumber(name string, unit time.Duration, slot *time.Duration) error {
	text := a.options.Get(name)
	if text == "" {
		return nil
	}
	number, err := strconv.ParseUint(text, 10, 30)
	if err != nil {
		units := map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[unit]
		return fault.New(fault.Invalid, "sqldb.Open", "%s=%s in the database URL is not a whole number of %s",
			name, text, units)
	}
	*slot = time.Duration(number) * unit
	return nil
}

// orElse returns value, or fallback if value is zero.
func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
