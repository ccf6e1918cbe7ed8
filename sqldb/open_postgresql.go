package sqldb

import (
	"context"
	"maps"
	"net"
	"net/url"
	"strconv"
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
		return fault.New(fault.Invalid, "sqldb.Open", "the PostgreSQL URL's options are not valid: %w", err)
	}
	if a.password != "" {
		c.Password = a.password
	}
	if c.RuntimeParams["idle_in_transaction_session_timeout"] == "" { // as idleTransaction of MariaDB
		c.RuntimeParams["idle_in_transaction_session_timeout"] = "10s"
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
	db.pool = serverPool(stdlib.OpenDB(*c))
	return nil
}
