package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// Restoring is the end of the name of a file that a restore has made and that has not taken its place yet. The database
// is not opened while it exists: its file may be missing, and would be created empty.
const Restoring = ".restoring"

// readConns is the maximum number of connections that read one SQLite database.
const readConns = 8

// openSQLite opens one connection that writes and a pool that reads.
//
// The pragmas: WAL lets readers and the writer run at the same time; synchronous FULL makes a COMMIT durable; foreign
// keys are not checked, as OpenStack configures SQLite. Temporary data is in memory: above all the pages as they were
// before each transaction of a batch, which SQLite otherwise writes to a file and deletes.
func (db *DB) openSQLite(ctx context.Context, a address) error {
	if err := a.checkOptions(); err != nil {
		return err
	}
	pragmas := url.Values{"_busy_timeout": {"5000"}, "_foreign_keys": {"0"}, "_error_rc": {"1"},
		"_pragma": {"temp_store(MEMORY)"}}
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
		return fault.Wrap(fault.Unavailable, err)
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
	if _, err := os.Stat(path + Restoring); err == nil {
		return nil, fault.New(fault.Conflict, "a restore of the database %s was interrupted: %s exists; run `berth restore` "+
			"again, or remove that file to use what is there", path, path+Restoring)
	}
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
		return nil, fault.Wrap(fault.Invalid, err)
	}
	pool := sql.OpenDB(stmtCache{connector, g})
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return pool, nil
}
