package sqldb

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// Notifies reports whether the database passes notifications between its clients. PostgreSQL does (NOTIFY and LISTEN);
// MariaDB, MySQL and SQLite have nothing like it. They leave nothing in the database.
func (db *DB) Notifies() bool { return db.listener != nil }

// Notify sends a text to all that Listen to a channel of the same database, at once and outside of any transaction: a
// NOTIFY inside would make transactions commit one after the other. The text has at most 7999 bytes. It may be lost.
func (db *DB) Notify(ctx context.Context, channel, text string) error {
	if !db.Notifies() {
		return nil
	}
	_, err := db.pool.ExecContext(ctx, "SELECT pg_notify($1, $2)", channel, text)
	return err
}

// Listen passes each text that is sent to a channel to each, on a connection of its own, until ctx ends or the
// connection is lost. listening is called when texts begin to arrive. What is sent while nothing listens is lost. It
// returns at once without notifications.
func (db *DB) Listen(ctx context.Context, channel string, listening func(), each func(text string)) error {
	if !db.Notifies() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, db.listener)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // an error means that the server has closed it
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	listening()
	for {
		got, err := conn.WaitForNotification(ctx)
		var timeout net.Error
		switch {
		case err == nil:
			each(got.Payload)
		case ctx.Err() == nil && errors.As(err, &timeout) && timeout.Timeout(): // nothing was sent for ioTimeout
			if err := conn.Ping(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}
