package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/openberth/berth/fault"
)

// maxCached is the largest number of prepared statements per connection. Stores have some dozens; lists in IN (…) add
// more.
const maxCached = 256

// stmtCache opens connections to SQLite that cache their prepared statements: for a small statement, parsing and
// planning cost several times as much as running it. The drivers of MariaDB and PostgreSQL do not need it.
type stmtCache struct {
	driver.Connector
	guard *guard // of the database's files
}

// sqliteConn are the methods of the driver's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// sqliteStmt are the methods of the driver's statements.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// Connect opens a connection that caches its statements. It fails if the path leads to another file than before:
// SQLite would apply the log of the old file to the new one.
func (k stmtCache) Connect(ctx context.Context) (driver.Conn, error) {
	if err := k.guard.check(); err != nil {
		return nil, err
	}
	c, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := k.guard.check(); err != nil {
		return nil, err // c stays open: SQLite applies the log when the last connection to a file is closed
	}
	able, ok := c.(sqliteConn)
	if !ok {
		c.Close()
		return nil, fault.New(fault.Internal, "the driver's connection (%T) lacks methods", c)
	}
	return &cachingConn{able, map[string]sqliteStmt{}}, nil
}

// cachingConn is one connection. database/sql lets one goroutine use it at a time.
type cachingConn struct {
	sqliteConn
	stmts map[string]sqliteStmt // by text; never one that is in use
}

// acquire returns a statement for a text, for exclusive use until release.
func (k *cachingConn) acquire(ctx context.Context, query string) (sqliteStmt, error) {
	if s, ok := k.stmts[query]; ok {
		delete(k.stmts, query)
		return s, nil
	}
	prepared, err := k.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s, ok := prepared.(sqliteStmt)
	if !ok {
		prepared.Close()
		return nil, fault.New(fault.Internal, "the driver's statement (%T) lacks methods", prepared)
	}
	return s, nil
}

// release returns a statement to the cache. A failed one is closed, and so is a second one with the same text.
func (k *cachingConn) release(query string, s sqliteStmt, failed error) error {
	if failed != nil {
		s.Close() // its error would repeat the failure
		return failed
	}
	if _, twice := k.stmts[query]; twice {
		return s.Close()
	}
	var err error
	for old, other := range k.stmts { // removes any statement: one free place is enough
		if len(k.stmts) < maxCached {
			break
		}
		delete(k.stmts, old)
		err = other.Close()
	}
	k.stmts[query] = s
	return err
}

// ExecContext runs a statement without rows.
func (k *cachingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := k.acquire(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(ctx, args)
	return result, k.release(query, s, err)
}

// QueryContext runs a statement that returns rows. The statement is in use until they are closed.
func (k *cachingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := k.acquire(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, k.release(query, s, err)
	}
	return &cachedRows{rows, k, query, s}, nil
}

// Close closes the statements and the connection.
func (k *cachingConn) Close() error {
	var all error
	for _, s := range k.stmts {
		all = errors.Join(all, s.Close())
	}
	clear(k.stmts)
	return errors.Join(all, k.sqliteConn.Close())
}

// cachedRows are the rows of a statement that is returned to the cache when they are closed.
type cachedRows struct {
	driver.Rows
	conn  *cachingConn
	query string
	stmt  sqliteStmt // nil after it was returned
}

// Close closes the rows.
func (r *cachedRows) Close() error {
	err := r.Rows.Close()
	if r.stmt == nil {
		return err
	}
	s := r.stmt
	r.stmt = nil
	return r.conn.release(r.query, s, err)
}
