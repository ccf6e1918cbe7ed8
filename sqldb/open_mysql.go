package sqldb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/openberth/berth/fault"
)

func (db *DB) openMySQL(a address) error {
	c, err := mysqlConfig(a)
	if err != nil {
		return err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return fault.Wrap(fault.Invalid, err)
	}
	db.pool = serverPool(sql.OpenDB(repeatable{connector}))
	db.notifier = &gates{db: db, database: a.database}
	return nil
}

// mysqlConfig configures the driver as OpenStack's drivers are configured: an UPDATE counts the rows that it matched.
func mysqlConfig(a address) (*mysql.Config, error) {
	if err := a.checkOptions("charset", "unix_socket", "connect_timeout", "read_timeout", "write_timeout", "ssl_ca",
		"ssl_cert",
		"ssl_key"); err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = a.user, a.password, a.database
	c.ParseTime, c.ClientFoundRows, c.InterpolateParams = true, true, true
	c.Logger = &mysql.NopLogger{} // the driver returns its messages as errors too
	c.Net, c.Addr = "tcp", net.JoinHostPort(orElse(a.host, "localhost"), strconv.Itoa(orElse(a.port, 3306)))
	if socket := a.options.Get("unix_socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	}
	charset := orElse(a.options.Get("charset"), "utf8mb4")
	if charset != "utf8" && charset != "utf8mb3" && charset != "utf8mb4" {
		return nil, fault.New(fault.Invalid, "charset=%s in the database URL is not supported; use utf8, "+
			"utf8mb3 or utf8mb4", charset)
	}
	if err := c.Apply(mysql.Charset(charset, "")); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	c.DialFunc = dialer(0, tcpTimeout) // the driver applies c.Timeout
	for name, slot := range map[string]*time.Duration{"connect_timeout": &c.Timeout, "read_timeout": &c.ReadTimeout,
		"write_timeout": &c.WriteTimeout} {
		if err := a.parseNumber(name, time.Second, slot); err != nil {
			return nil, err
		}
	}
	var err error
	if c.TLS, err = a.tls(); err != nil {
		return nil, err
	}
	return c, nil
}

// lockWait limits how long a statement waits while the server blocks all writes (FLUSH TABLES WITH READ LOCK) or
// changes a table; the default is a day. A statement whose client has disconnected continues to wait in the server,
// and occupies a connection there.
const lockWait = "SET SESSION lock_wait_timeout = 10"

// idleTransaction limits how long MariaDB keeps a transaction whose client sends nothing: a process that was stopped in
// the middle of a write would keep its locks, so that no other process could take over. MySQL has no such limit.
const idleTransaction = "SET SESSION idle_transaction_timeout = 10"

// strict sets the SQL mode as OpenStack's drivers do, whatever the server's is: without it, a server may store a text
// that it has shortened and a number that it has changed, or refuse a GROUP BY.
const strict = "SET SESSION sql_mode = 'TRADITIONAL'"

// repeatable sets REPEATABLE READ for all transactions of a connection, which saves one statement per transaction. On
// a Galera cluster each BEGIN then waits until its node has applied the earlier commits of all nodes.
type repeatable struct{ driver.Connector }

// Connect implements driver.Connector.
func (r repeatable) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"SET SESSION wsrep_sync_wait = 1", lockWait, idleTransaction, strict} {
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, statement, nil)
		if err != nil && !unknownVariable(err) { // MariaDB without Galera, and MySQL
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// tls returns MySQL's TLS settings from the options ssl_ca, ssl_cert and ssl_key, or nil if none is given. With
// ssl_ca the server's certificate and name are checked; ssl_cert and ssl_key are the client's certificate.
func (a address) tls() (*tls.Config, error) {
	ca, cert, key := a.options.Get("ssl_ca"), a.options.Get("ssl_cert"), a.options.Get("ssl_key")
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{ServerName: a.host, MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fault.New(fault.Invalid, "ssl_ca in the database URL: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "ssl_ca in the database URL: %s has no PEM "+
				"certificate", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "ssl_cert and ssl_key in the database URL: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
