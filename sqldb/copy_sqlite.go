package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// FileCopy is an SQLite database in a file, and the file to be made from it.
type FileCopy struct{ From, To string }

// CopyFiles copies SQLite databases while other processes use them. All copies have the state of the same moment, in
// which no transaction is open: the databases refuse writes until each has a snapshot, which takes milliseconds. Each
// copy is checked by SQLite and synced. The fault is Unavailable if a database is missing or another process writes to
// it for longer than 10 s, and Internal if a copy is damaged.
func CopyFiles(ctx context.Context, copies []FileCopy) (err error) {
	var sources []*snapshot
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, c := range copies {
		s, err := openSnapshot(ctx, c.From)
		if err != nil {
			return err
		}
		sources = append(sources, s)
	}
	if err := takeSnapshots(ctx, sources); err != nil {
		return err
	}
	for i, s := range sources {
		if err := s.copyTo(ctx, copies[i].To); err != nil {
			return err
		}
	}
	return nil
}

// takeSnapshots gives each database a snapshot of the same moment.
func takeSnapshots(ctx context.Context, sources []*snapshot) (err error) {
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, s.unlock(ctx))
		}
	}()
	for _, s := range sources {
		if err := s.lock(ctx); err != nil {
			return err
		}
	}
	for _, s := range sources {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	return nil
}

// snapshot is a database with a connection that keeps others from writing, and one that reads.
type snapshot struct {
	file           string
	pool           *sql.DB
	writer, reader *sql.Conn
	locked         bool
}

// openSnapshot opens a database that exists.
func openSnapshot(ctx context.Context, file string) (*snapshot, error) {
	path, err := filepath.Abs(file)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot copy the database %s: %w", file, err)
	}
	options := url.Values{"_busy_timeout": {"10000"}, "mode": {"rw"}, "_error_rc": {"1"}}
	s := &snapshot{file: file}
	connector, err := sqlite.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options.Encode())
	if err != nil {
		return nil, s.failed(err)
	}
	s.pool = sql.OpenDB(connector)
	if s.writer, err = s.pool.Conn(ctx); err == nil {
		s.reader, err = s.pool.Conn(ctx)
	}
	if err != nil {
		return nil, errors.Join(s.failed(err), s.pool.Close())
	}
	return s, nil
}

// Close releases the snapshot.
func (s *snapshot) Close() error {
	return errors.Join(s.reader.Close(), s.writer.Close(), s.pool.Close())
}

func (s *snapshot) failed(err error) error {
	return fault.New(fault.Unavailable, "cannot copy the database %s: %w", s.file, err)
}

// lock keeps other connections from writing.
func (s *snapshot) lock(ctx context.Context) error {
	_, err := s.writer.ExecContext(ctx, "BEGIN IMMEDIATE")
	switch {
	case err != nil && isBusy(err):
		return findHolder(s.file).locked(s.file, err)
	case err != nil:
		return s.failed(err)
	}
	s.locked = true
	return nil
}

// unlock reverses lock. It does nothing without it.
func (s *snapshot) unlock(ctx context.Context) error {
	if !s.locked {
		return nil
	}
	s.locked = false
	_, err := s.writer.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return err
}

// begin fixes what the reader sees: SQLite takes the snapshot of a transaction with its first read.
func (s *snapshot) begin(ctx context.Context) error {
	if _, err := s.reader.ExecContext(ctx, "BEGIN"); err != nil {
		return s.failed(err)
	}
	if err := s.reader.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(new(int)); err != nil {
		return s.failed(err)
	}
	return nil
}

// copyTo copies what the reader sees to a new file.
func (s *snapshot) copyTo(ctx context.Context, file string) error {
	err := s.reader.Raw(func(conn any) error {
		source, ok := conn.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		})
		if !ok {
			return fault.New(fault.Internal, "the driver of SQLite copies no databases")
		}
		copied, err := source.NewBackup(file)
		if err != nil {
			return err
		}
		_, err = copied.Step(-1)
		if end := copied.Finish(); err == nil { // otherwise it returns the same error again
			err = end
		}
		return err
	})
	if err != nil {
		return fault.New(fault.Unavailable, "cannot copy the database %s to %s: %w; check the free space and the rights of "+
			"the directory of the copy, and the disk of the database", s.file, file, err)
	}
	if _, err := s.reader.ExecContext(ctx, "ROLLBACK"); err != nil { // so that the log can be emptied again
		return s.failed(err)
	}
	if err := checkCopy(ctx, file); err != nil {
		return err
	}
	return datafile.Sync(file)
}

// checkCopy lets SQLite check a file. It is in the journal mode of a file of its own afterwards: its -wal and -shm
// files do not exist.
func checkCopy(ctx context.Context, file string) (err error) {
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=rw")
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	var result string
	if err := pool.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return fault.New(fault.Internal, "cannot check the copy %s: %w", file, err)
	}
	if result != "ok" {
		return fault.New(fault.Internal, "the copy %s is damaged, and so is the database: %s", file, result)
	}
	_, err = pool.ExecContext(ctx, "PRAGMA journal_mode = DELETE")
	return err
}
