package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/openberth/berth/fault"
)

// maxKept is how many prepared statements a connection keeps. Stores have some dozens; lists in IN (…) make more of them.
const maxKept = 256

// keeping makes connections to SQLite that keep the statements they have prepared: for a small statement, parsing and planning
// costs several times what running it does. The drivers of MariaDB and PostgreSQL need no such thing.
type keeping struct {
	driver.Connector
	guard *guard // of the database's files
}

// sqliteConn is what the driver's connections can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// sqliteStmt is what its statements can do.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// Connect opens a connection that keeps its statements. It fails when the path leads to another file than before:
// SQLite would apply the log of the old file to the new one.
func (k keeping) Connect(ctx context.Context) (driver.Conn, error) {
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
		return nil, fault.New(fault.Internal, "sqldb.Connect", "the driver's connection (%T) lacks methods", c)
	}
	return &keeper{able, map[string]sqliteStmt{}}, nil
}

// keeper is one connection. database/sql lets one goroutine use it at a time.
type keeper struct {
	sqliteConn
	kept map[string]sqliteStmt // by text; never one that is in use
}

// take gives a statement for a text, which nobody else has until it is given back.
func (k *keeper) take(ctx context.Context, query string) (sqliteStmt, error) {
	if s, ok := k.kept[query]; ok {
		delete(k.kept, query)
		return s, nil
	}
	prepared, err := k.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s, ok := prepared.(sqliteStmt)
	if !ok {
		prepared.Close()
		return nil, fault.New(fault.Internal, "sqldb.take", "the driver's statement (%T) lacks methods", prepared)
	}
	return s, nil
}

// give takes a statement back. One that failed is not kept, and neither is a second one of the same text.
func (k *keeper) give(query string, s sqliteStmt, failed error) error {
	if failed != nil {
		s.Close() // what it might say is what failed
		return failed
	}
	if _, twice := k.kept[query]; twice {
		return s.Close()
	}
	var err error
	for old, other := range k.kept { // any: there is only one to make room for
		if len(k.kept) < maxKept {
			break
		}
		delete(k.kept, old)
		err = other.Close()
	}
	k.kept[query] = s
	return err
}

// ExecContext runs a statement without rows.
func (k *keeper) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := k.take(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(ctx, args)
	return result, k.give(query, s, err)
}

// QueryContext runs a statement whose rows are to be read. The statement is in use until they are closed.
func (k *keeper) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := k.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, k.give(query, s, err)
	}
	return &keptRows{rows, k, query, s}, nil
}

// Close closes the statements and the connection.
func (k *keeper) Close() error {
	var all error
	for _, s := range k.kept {
		all = errors.Join(all, s.Close())
	}
	clear(k.kept)
	return errors.Join(all, k.sqliteConn.Close())
}

// keptRows are the rows of a statement that is given back when they are closed.
type keptRows struct {
	driver.Rows
	keeper *keeper
	query  string
	stmt   sqliteStmt // nil once given back
}

// Close ends the reading.
func (r *keptRows) Close() error {
	err := r.Rows.Close()
	if r.stmt == nil {
		return err
	}
	s := r.stmt
	r.stmt = nil
	return r.keeper.give(r.query, s, err)
}
