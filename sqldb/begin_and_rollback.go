package sqldb

import (
	"context"
	"database/sql"
	"time"
)

// begin takes a connection and begins a transaction on it. A dead connection does not count as an attempt, because
// all are dead after the server has restarted; one that takes long to fail does.
func (db *DB) begin(ctx context.Context, readOnly bool) (*sql.Conn, error) {
	began, statement := time.Now(), db.uncancelled(ctx)
	for tried := 0; ; tried++ {
		conn, err := db.pool.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if _, err = conn.ExecContext(statement, db.beginStatement(readOnly)); err == nil {
			return conn, nil
		}
		dead := lost(err) // also a last message of the server from before its restart
		if dead || statement.Err() != nil {
			discard(conn)
		}
		conn.Close()
		if !dead || tried >= idleConns || time.Since(began) > longBegin {
			return nil, err
		}
	}
}

// uncancelled returns the context for a BEGIN or a ROLLBACK. On SQLite it never ends: they take no time, and the
// connection of a database in memory must not be closed.
func (db *DB) uncancelled(ctx context.Context) context.Context {
	if db.Dialect == SQLite {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// beginStatement returns the statement that begins a transaction. Only PostgreSQL needs the isolation level: MySQL's
// connections have it set (see repeatable), and SQLite has no other.
func (db *DB) beginStatement(readOnly bool) string {
	statement := map[Dialect]string{SQLite: "BEGIN", MySQL: "START TRANSACTION",
		PostgreSQL: "BEGIN ISOLATION LEVEL REPEATABLE READ"}[db.Dialect]
	if readOnly && db.Dialect != SQLite {
		statement += " READ ONLY"
	}
	return statement
}

// rollback rolls a transaction back. If the deadline of ctx has passed it closes the connection instead, with the
// same effect.
func (db *DB) rollback(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := Patient(db.uncancelled(ctx))
	defer cancel()
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		discard(conn)
	}
}
