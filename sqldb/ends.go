package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// begin takes a connection and begins a transaction on it. Connections that turn out to be dead, as all do when the
// server was started anew, cost no attempt; one that takes long to fail does.
func (db *DB) begin(ctx context.Context, readOnly bool) (*sql.Conn, error) {
	began, statement := time.Now(), db.lasting(ctx)
	for tried := 0; ; tried++ {
		conn, err := db.pool.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if _, err = conn.ExecContext(statement, db.beginning(readOnly)); err == nil {
			return conn, nil
		}
		dead := lost(err) // also when the server's last words come now, from before it was started anew
		if dead || statement.Err() != nil {
			discard(conn)
		}
		conn.Close()
		if !dead || tried >= idleConns || time.Since(began) > longBegin {
			return nil, err
		}
	}
}

// lasting is the context for a BEGIN or a ROLLBACK. On SQLite they always run: they take no time, and the connection of
// a database in memory must not be discarded.
func (db *DB) lasting(ctx context.Context) context.Context {
	if db.Dialect == SQLite {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// beginning is the statement that begins a transaction. Only PostgreSQL must be told the isolation: MySQL's
// connections know it (see repeatable), and SQLite has no other.
func (db *DB) beginning(readOnly bool) string {
	statement := map[Dialect]string{SQLite: "BEGIN", MySQL: "START TRANSACTION",
		PostgreSQL: "BEGIN ISOLATION LEVEL REPEATABLE READ"}[db.Dialect]
	if readOnly && db.Dialect != SQLite {
		statement += " READ ONLY"
	}
	return statement
}

// commit ends a transaction. It goes on when ctx is cancelled, for the outcome would be unknown; but not when the
// deadline of ctx has passed: then it closes the connection.
func commit(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := Patient(ctx)
	defer cancel()
	var result error
	if err := conn.Raw(func(c any) error {
		if pg, ok := c.(*stdlib.Conn); ok { // database/sql takes some errors of its for a statement that was not sent
			result = commitPostgreSQL(ctx, pg.Conn())
			return nil
		}
		_, result = c.(driver.ExecerContext).ExecContext(ctx, "COMMIT", nil)
		return nil
	}); err != nil {
		return err
	}
	return result
}

// commitPostgreSQL returns an error also when the server answers COMMIT with a rollback, as it does after a statement
// that failed.
func commitPostgreSQL(ctx context.Context, conn *pgx.Conn) error {
	tag, err := conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollback undoes a transaction. When the deadline of ctx has passed it closes the connection instead, which undoes it
// too.
func (db *DB) rollback(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := Patient(db.lasting(ctx))
	defer cancel()
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		discard(conn)
	}
}

// discard closes a connection without a word to the server, which may have stalled, in place of giving it back.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error { // it fails with the error that makes database/sql close it
		if pg, ok := c.(*stdlib.Conn); ok {
			pg.Conn().PgConn().Conn().Close()
		}
		return driver.ErrBadConn
	})
}

// Patient returns a context that ends with the deadline of ctx, but not when ctx is cancelled before: for work that
// must be finished although its client has gone.
func Patient(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(lasting, deadline)
	}
	return context.WithCancel(lasting)
}
