package sqldb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

const (
	serverConns = 32        // connections to a database server; more would only queue inside the server
	idleConns   = 8         // of these, kept open while idle
	connAge     = time.Hour // as oslo.db's connection_recycle_time, below MySQL's wait_timeout
	readConns   = 8         // SQLite's readers at most
)

// Open connects to the database of a SQLAlchemy URL and checks that it answers.
//
// sqlite:// is a private database in memory, where Read and Write share one connection. sqlite:///path creates the
// file if it does not exist. No error contains the URL's password.
func Open(ctx context.Context, url string) (*DB, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	db := &DB{Dialect: a.dialect,
		backoff: backoff.Exponential{First: firstPause, Max: maxPause, Jitter: backoff.Around}}
	switch a.dialect {
	case SQLite:
		err = db.openSQLite(ctx, a)
	case MySQL:
		err = db.openMySQL(a)
	case PostgreSQL:
		err = db.openPostgreSQL(a)
	}
	if err != nil {
		return nil, err
	}
	if err := db.pool.PingContext(ctx); err != nil {
		db.Close()
		return nil, a.openError(err)
	}
	return db, nil
}

// place returns a description of the database for messages, without credentials.
func (a address) place() string {
	if a.dialect == SQLite {
		return "SQLite database " + strconv.Quote(a.database)
	}
	host := a.host
	if host == "" {
		host = "this host"
	} else if a.port != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(a.port))
	}
	return string(a.dialect) + " database " + strconv.Quote(a.database) + " on " + host
}

// openError returns the fault for a database that could not be opened, with what to check.
func (a address) openError(err error) error {
	what := remedy(err)
	switch {
	case isBusy(err):
		return findHolder(a.database).locked("sqldb.Open", a.database, err)
	case a.dialect == SQLite && what != "":
		return fault.New(fault.Unavailable, "sqldb.Open", "%s cannot be opened: %w; %s", a.place(), err, what)
	case a.dialect == SQLite:
		return fault.New(fault.Unavailable, "sqldb.Open", "%s cannot be opened: %w; check that its directory "+
			"exists and that Berth's user may write in it", a.place(), err)
	case answered(err):
		return fault.New(fault.Unavailable, "sqldb.Open", "%s rejects the connection: %w; check user, password and "+
			"database in the connection's URL, and the rights of that user", a.place(), err)
	}
	return fault.New(fault.Unavailable, "sqldb.Open", "%s does not answer: %w; check that it runs, and host and "+
		"port in the connection's URL", a.place(), err)
}

// openSQLite opens one connection that writes and a pool that reads.
//
// The pragmas: WAL lets readers and the writer run at the same time; synchronous FULL makes a COMMIT durable; foreign
// keys are not checked, as OpenStack configures SQLite.
func (db *DB) openSQLite(ctx context.Context, a address) error {
	if err := a.checkOptions(); err != nil {
		return err
	}
	pragmas := url.Values{"_busy_timeout": {"5000"}, "_foreign_keys": {"0"}, "_error_rc": {"1"}}
	if a.database == "" || a.database == ":memory:" {
		pool, err := sqlitePool("file::memory:?"+pragmas.Encode(), 1, nil)
		if err != nil {
			return err
		}
		db.pool, db.writer = pool, newWriter(pool, nil)
		return nil
	}
	return db.openSQLiteFile(ctx, a, pragmas)
}

// openSQLiteFile opens a database in a file, creates the file if necessary, and guards its files from then on.
func (db *DB) openSQLiteFile(ctx context.Context, a address, pragmas url.Values) error {
	path, err := filepath.Abs(a.database)
	if err != nil {
		return fault.Wrap(fault.Unavailable, "sqldb.Open", err)
	}
	if db.Narrowed, err = prepareFiles(path); err != nil {
		return err
	}
	pragmas.Set("_journal_mode", "WAL")
	pragmas.Set("_synchronous", "FULL")
	pragmas.Set("mode", "rw") // no connection creates a file: one that is missing later was lost
	file := "file:" + (&url.URL{Path: path}).EscapedPath() + "?"
	g := newGuard(path)
	write, err := sqlitePool(file+pragmas.Encode(), 1, g)
	if err != nil {
		return err
	}
	// First, because it may switch WAL on; and a read makes SQLite open the log.
	if err := write.QueryRowContext(ctx, "PRAGMA schema_version").Scan(new(int)); err != nil {
		write.Close()
		return a.openError(err)
	}
	if err := g.learn(); err != nil {
		return errors.Join(err, write.Close())
	}
	pragmas.Set("_query_only", "1")
	read, err := sqlitePool(file+pragmas.Encode(), readConns+1, g)
	if err == nil {
		db.anchor, err = read.Conn(ctx)
	}
	if err != nil {
		return errors.Join(a.openError(err), write.Close())
	}
	db.file, db.pool, db.writer, db.guard = a.database, read, newWriter(write, g), g
	g.watch(guardInterval, db.rescue)
	return nil
}

// prepareFiles creates the file of a new database, and removes the access rights of other users from the files of an
// existing one. It returns the paths whose rights it changed.
func prepareFiles(path string) (narrowed []string, err error) {
	if err := checkSaved(path); err != nil {
		return nil, err
	}
	if err := createPrivate(path); !errors.Is(err, fs.ErrExist) {
		return nil, nil // it is new; or it cannot be created, and SQLite reports why
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil // a link without a target: the same
	}
	for _, file := range []string{real, real + "-wal", real + "-shm"} {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		changed, err := datafile.Narrow(file)
		if err != nil {
			return nil, err
		}
		if changed {
			narrowed = append(narrowed, file)
		}
	}
	return narrowed, nil
}

func sqlitePool(dsn string, conns int, g *guard) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "sqldb.Open", err)
	}
	pool := sql.OpenDB(stmtCache{connector, g})
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return pool, nil
}

func (db *DB) openMySQL(a address) error {
	c, err := mysqlConfig(a)
	if err != nil {
		return err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return fault.Wrap(fault.Invalid, "sqldb.Open", err)
	}
	db.pool = serverPool(sql.OpenDB(repeatable{connector}))
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
		return nil, fault.New(fault.Invalid, "sqldb.Open", "charset=%s in the database URL is not supported; use utf8, "+
			"utf8mb3 or utf8mb4", charset)
	}
	if err := c.Apply(mysql.Charset(charset, "")); err != nil {
		return nil, fault.Wrap(fault.Invalid, "sqldb.Open", err)
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
		"SET SESSION wsrep_sync_wait = 1", lockWait} {
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, statement, nil)
		if err != nil && !unknownVariable(err) { // MySQL without Galera
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

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

func serverPool(pool *sql.DB) *sql.DB {
	pool.SetMaxOpenConns(serverConns)
	pool.SetMaxIdleConns(idleConns)
	pool.SetConnMaxLifetime(connAge)
	return pool
}

// parseNumber parses an option that is a whole number of units, seconds or milliseconds, into slot; without the option
// slot does not change.
func (a address) parseNumber(name string, unit time.Duration, slot *time.Duration) error {
	text := a.options.Get(name)
	if text == "" {
		return nil
	}
	number, err := strconv.ParseUint(text, 10, 30)
	if err != nil {
		units := map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[unit]
		return fault.New(fault.Invalid, "sqldb.Open", "%s=%s in the database URL is not a whole number of %s",
			name, text, units)
	}
	*slot = time.Duration(number) * unit
	return nil
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
			return nil, fault.New(fault.Invalid, "sqldb.Open", "ssl_ca in the database URL: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "sqldb.Open", "ssl_ca in the database URL: %s has no PEM "+
				"certificate", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "sqldb.Open", "ssl_cert and ssl_key in the database URL: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// orElse returns value, or fallback if value is zero.
func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
