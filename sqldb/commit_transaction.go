package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

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
