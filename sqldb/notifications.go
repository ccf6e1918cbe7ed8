package sqldb

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// notifier passes notifications between the clients of a database.
type notifier interface {
	notify(ctx context.Context, channel, text string) error
	listen(ctx context.Context, channel string, listening func(), each func(text string)) error
}

// Notifies reports whether the database passes notifications between its clients: PostgreSQL with NOTIFY and LISTEN,
// MariaDB and MySQL with named locks (see gates). SQLite has nothing like it. They leave nothing in the database.
func (db *DB) Notifies() bool { return db.notifier != nil }

// Notify sends a text to all that Listen to a channel of the same database, at once and outside of any transaction: a
// NOTIFY inside would make transactions commit one after the other. The text has at most 7999 bytes, and no "*/". It
// may be lost. On MariaDB and MySQL it takes some time, and the sender must itself Listen to the channel.
func (db *DB) Notify(ctx context.Context, channel, text string) error {
	if !db.Notifies() {
		return nil
	}
	return db.notifier.notify(ctx, channel, text)
}

// Listen passes each text that is sent to a channel to each, on a connection of its own, until ctx ends or the
// connection is lost. listening is called when texts begin to arrive. What is sent while nothing listens is lost. It
// returns at once without notifications.
func (db *DB) Listen(ctx context.Context, channel string, listening func(), each func(text string)) error {
	if !db.Notifies() {
		return nil
	}
	return db.notifier.listen(ctx, channel, listening, each)
}

// postgresNotifier is the notifier of PostgreSQL.
type postgresNotifier struct {
	db     *DB
	config *pgx.ConnConfig // how listen connects
}

func (p postgresNotifier) notify(ctx context.Context, channel, text string) error {
	_, err := p.db.pool.ExecContext(ctx, "SELECT pg_notify($1, $2)", channel, text)
	return err
}

func (p postgresNotifier) listen(ctx context.Context, channel string, listening func(), each func(text string)) error {
	conn, err := pgx.ConnectConfig(ctx, p.config)
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
