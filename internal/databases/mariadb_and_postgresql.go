// Package databases starts real database servers for tests: MariaDB (also as a Galera cluster) and PostgreSQL from
// Debian's packages, each in a directory of its own, on loopback, on a port that was free, as the unprivileged user
// that the server requires.
//
// Servers of the machine are not touched, and no service manager is needed. A server ends with the test that started
// it, and also when the test process dies: a warden process ends it when its standard input is closed.
//
//	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
//		db, err := sqldb.Open(t.Context(), fresh(t))
//		…
//	})
package databases

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/openberth/berth/internal/testenv"
)

// Each runs a test on every database that Berth supports, as subtests SQLite, MariaDB and PostgreSQL. fresh creates an
// empty database and returns its SQLAlchemy URL. The database servers are the shared ones.
func Each(t *testing.T, run func(t *testing.T, fresh func(testing.TB) string)) {
	t.Run("SQLite", func(t *testing.T) { run(t, SQLite) })
	t.Run("MariaDB", func(t *testing.T) { run(t, SharedMariaDB(t).Database) })
	t.Run("PostgreSQL", func(t *testing.T) { run(t, SharedPostgreSQL(t).Database) })
}

// SQLite returns the URL of a database in a new file, which is created when it is opened.
func SQLite(t testing.TB) string {
	return "sqlite:///" + filepath.Join(testenv.MemoryDir(t), "fresh.db")
}

// Server is a database server of one test, or one that the tests of a process share.
type Server struct {
	Addr string // host:port; stays the same over Kill and Restart

	kind  kind
	dir   string   // files of the server; removed when the server ends
	args  []string // the server and its arguments
	made  atomic.Int64
	alive *warden // nil after Kill
}

// kind describes the differences between MariaDB and PostgreSQL.
type kind struct {
	name    string
	onDisk  bool   // its files are in the directory for temporary files, not in memory
	user    string // the user of the server if the test runs as root
	bins    []string
	install func(s *Server) []string // the command that creates its files
	serve   func(s *Server) []string // the command that runs the server
	// the signal that ends the server fast, without keeping its data
	end    string
	ready  []string                                             // statements for the first connection
	awake  []string                                             // statements that succeed only when the server is ready
	before func(*Server, *syscall.Credential) ([]string, error) // more arguments for a server that ran before; nil: none
	open   func(addr, database string) (*sql.DB, error)         // as administrator; database may be empty
	url    func(addr, database string) string                   // in SQLAlchemy's form
}

// MariaDB starts a MariaDB for one test. options are arguments of mariadbd; later ones have priority. Committed data
// survives a kill -9 of the server, but its files are in memory if there is room: see DurableMariaDB for measurements.
// A table without a primary key is rejected, because a Galera cluster could not replicate it.
func MariaDB(t testing.TB, options ...string) *Server {
	t.Helper()
	return start(t, mariaDB(), options)
}

// PostgreSQL starts a PostgreSQL for one test. options are arguments of postgres; later ones have priority. Committed
// data survives a kill -9 of the server, but its files are in memory if there is room: see DurablePostgreSQL.
func PostgreSQL(t testing.TB, options ...string) *Server {
	t.Helper()
	return start(t, postgreSQL(), options)
}

// DurableMariaDB starts a MariaDB with its files on the disk, and the settings with which a COMMIT is on the disk when
// it is acknowledged; they are the defaults.
func DurableMariaDB(t testing.TB) *Server {
	t.Helper()
	k := mariaDB()
	k.onDisk = true
	return start(t, k, []string{"--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync",
		"--innodb-doublewrite=1", "--innodb-buffer-pool-size=128M"})
}

// DurablePostgreSQL is DurableMariaDB for PostgreSQL.
func DurablePostgreSQL(t testing.TB) *Server {
	t.Helper()
	k := postgreSQL()
	k.onDisk = true
	return start(t, k, []string{"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "full_page_writes=on"})
}

// SharedMariaDB returns the MariaDB that the tests of this process share. It starts with the first of them and ends
// with the process. A test creates databases of its own, and changes nothing else in the server: see MariaDB.
func SharedMariaDB(t testing.TB) *Server {
	t.Helper()
	return share(t, mariaDB())
}

// SharedPostgreSQL is SharedMariaDB for PostgreSQL.
func SharedPostgreSQL(t testing.TB) *Server {
	t.Helper()
	return share(t, postgreSQL())
}

func mariaDB() kind {
	quick := []string{"--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-doublewrite=0",
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"}
	return kind{
		name: "MariaDB", user: "mysql", bins: []string{"/usr/sbin", "/usr/bin", "/usr/local/bin"}, end: "KILL",
		install: func(s *Server) []string {
			return append([]string{"mariadb-install-db", "--no-defaults", "--datadir=" + s.dir,
				"--auth-root-authentication-method=normal",
				"--skip-test-db", "--skip-name-resolve"}, quick...)
		},
		serve: func(s *Server) []string {
			host, port := split(s.Addr)
			return append([]string{"mariadbd", "--no-defaults", "--datadir=" + s.dir, "--tmpdir=" + s.dir, "--socket=socket",
				"--bind-address=" + host,
				"--port=" + port, "--skip-name-resolve", "--max-connections=400", "--character-set-server=utf8mb4",
				"--collation-server=utf8mb4_general_ci", "--innodb-force-primary-key=1"}, quick...)
		},
		ready: []string{"CREATE USER IF NOT EXISTS berth@'%' IDENTIFIED BY 'berth'", "GRANT ALL ON *.* TO berth@'%'"},
		open:  func(addr, database string) (*sql.DB, error) { return administrator(addr, database, nil) },
		url: func(addr, database string) string {
			return fmt.Sprintf("mysql+pymysql://berth:berth@%s/%s?charset=utf8", addr, database)
		},
	}
}

// administrator opens a MariaDB as its root user, with session variables.
func administrator(addr, database string, variables map[string]string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.Logger, c.Params = "root", "tcp", addr, database, &mysql.NopLogger{}, variables
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func postgreSQL() kind {
	return kind{
		name: "PostgreSQL", user: "postgres", bins: postgresBins(), end: "QUIT",
		install: func(s *Server) []string {
			return []string{"initdb", "--no-sync", "--pgdata=" + s.dir, "--username=berth", "--auth=trust", "--encoding=UTF8",
				"--locale=C"}
		},
		serve: func(s *Server) []string {
			host, port := split(s.Addr)
			return []string{"postgres", "-D", s.dir, "-p", port, "-c", "listen_addresses=" + host, "-c",
				"unix_socket_directories=", "-c", "fsync=off",
				"-c", "max_connections=400"}
		},
		open: func(addr, database string) (*sql.DB, error) {
			if database == "" {
				database = "postgres"
			}
			return sql.Open("pgx", fmt.Sprintf("postgresql://berth:berth@%s/%s?sslmode=disable", addr, database))
		},
		url: func(addr, database string) string {
			return fmt.Sprintf("postgresql+psycopg2://berth:berth@%s/%s", addr, database)
		},
	}
}

// Name returns MariaDB or PostgreSQL.
func (s *Server) Name() string { return s.kind.name }

// Database creates an empty database and returns its SQLAlchemy URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("berth_%d", s.made.Add(1))
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return s.kind.url(s.Addr, name)
}

// Admin returns connections as the server's administrator, until the test ends.
func (s *Server) Admin(t testing.TB) *sql.DB {
	t.Helper()
	db, err := s.kind.open(s.Addr, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// exec runs statements as the server's administrator.
func (s *Server) exec(statements ...string) error {
	db, err := s.kind.open(s.Addr, "")
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return db.Ping()
}
