package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/openberth/berth/fault"
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

// commit commits a transaction. It continues if ctx is cancelled, because the outcome would be unknown; but when the
// deadline of ctx has passed, it closes the connection.
func commit(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := Patient(ctx)
	defer cancel()
	var result error
	if err := conn.Raw(func(c any) error {
		if pg, ok := c.(*stdlib.Conn); ok { // database/sql treats some of its errors as a statement that was not sent
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

// commitPostgreSQL also returns an error if the server answers COMMIT with a rollback, as it does after a failed
// statement.
func commitPostgreSQL(ctx context.Context, conn *pgx.Conn) error {
	tag, err := conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// discard closes a connection without notifying the server, which may have stalled.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error { // the error makes database/sql close the connection
		if pg, ok := c.(*stdlib.Conn); ok {
			pg.Conn().PgConn().Conn().Close()
		}
		return driver.ErrBadConn
	})
}

// Patient returns a context with the deadline of ctx that is not cancelled with ctx: for work that must be finished
// although its client has disconnected.
func Patient(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(lasting, deadline)
	}
	return context.WithCancel(lasting)
}

// longBegin is the time after which a BEGIN that failed is not repeated.
const longBegin = 5 * time.Second

// beginError returns an error of BEGIN with a kind. Nothing has happened yet, so BEGIN may be repeated after a lost
// connection. The same is true if a node stopped waiting for its cluster early, as when the cluster changes; but
// after a long wait it is not repeated.
func beginError(err error, took time.Duration) error {
	if lost(err) && took > longBegin { // the server may have stalled
		return fault.New(fault.Unavailable, "sqldb.begin", "the database has not answered for %s; nothing was changed, "+
			"try again later: %v",
			took.Round(time.Second), err)
	}
	if notCaughtUp(err) && took > longBegin { // without its cause, so that it is not repeated
		return fault.New(fault.Unavailable, "sqldb.begin",
			"this node of the database cluster has not caught up with the others in time, try again later: %v", err)
	}
	if lost(err) || notCaughtUp(err) {
		return &retry{unavailable("sqldb.begin", err)}
	}
	return fault.Wrap(fault.Unavailable, "sqldb.begin", err)
}
