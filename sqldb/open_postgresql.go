package sqldb

import (
	"context"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/openberth/berth/fault"
)

// userTimeout is libpq's option for TCP_USER_TIMEOUT, in milliseconds.
const userTimeout = "tcp_user_timeout"

// openPostgreSQL passes libpq's own options (sslmode, sslrootcert, connect_timeout and so on) to the driver.
func (db *DB) openPostgreSQL(a address) error {
	if err := a.checkOptions("host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout",
		"application_name",
		"client_encoding", "options", "target_session_attrs", userTimeout); err != nil {
		return err
	}
	confirmed := tcpTimeout
	if err := a.parseNumber(userTimeout, time.Millisecond, &confirmed); err != nil {
		return err
	}
	options := maps.Clone(a.options)
	options.Del(userTimeout) // the driver would pass it to the server
	u := url.URL{Scheme: "postgresql", Path: "/" + a.database, RawQuery: options.Encode()}
	if a.host != "" {
		u.Host = net.JoinHostPort(a.host, strconv.Itoa(orElse(a.port, 5432)))
	}
	if a.user != "" {
		u.User = url.User(a.user)
	}
	c, err := pgx.ParseConfig(u.String()) // without the password, because its errors may be shown
	if err != nil {
		return fault.New(fault.Invalid, "the PostgreSQL URL's options are not valid: %w", err)
	}
	if a.password != "" {
		c.Password = a.password
	}
	if a.options.Get("connect_timeout") == "" {
		c.ConnectTimeout = dialTimeout
	}
	dial := dialer(c.ConnectTimeout, confirmed)
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &timedConn{Conn: conn, limit: ioTimeout}, nil
	}
	limit := stdlib.OptionAfterConnect(limitIdleTransactions)
	if strings.Contains(a.options.Get("options"), idleLimit) { // the operator sets it
		limit = stdlib.OptionAfterConnect(func(context.Context, *pgx.Conn) error { return nil })
	}
	db.pool, db.notifier = serverPool(stdlib.OpenDB(*c, limit)), postgresNotifier{db, c}
	return nil
}

const idleLimit = "idle_in_transaction_session_timeout"

// limitIdleTransactions limits how long PostgreSQL keeps a transaction whose client sends nothing, as idleTransaction
// of MariaDB. A server that refuses this works without; only the loss of the connection is returned. The limit is set
// after the connection, because PgBouncer refuses connections with parameters that it does not know.
func limitIdleTransactions(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SET "+idleLimit+" = '10s'"); err != nil && (lost(err) || !answered(err)) {
		return err
	}
	return nil
}
