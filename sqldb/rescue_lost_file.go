package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// rescueTime is the time limit for saving the content of a lost database.
const rescueTime = time.Minute

// incomplete is the suffix of the copy of a lost database while it is written.
const incomplete = ".incomplete"

// rescue saves the content of a database that lost a file, as far as the writing connection still has it. It returns
// the fault with what happened and what to do. It writes to no file that does not belong to this database.
func (db *DB) rescue() error {
	g := db.guard
	ctx, cancel := context.WithTimeout(context.Background(), rescueTime)
	defer cancel()
	now := time.Now().UTC().Format("20060102T150405Z")
	state, err := g.main.State()
	if err != nil {
		return g.explain(datafile.Missing, "", err)
	}
	home, err := g.home.State()
	if err != nil {
		home = datafile.Missing
	}
	own := g.setAside(home == datafile.Same, now)
	conn, err := db.writer.pool.Conn(ctx)
	if err != nil {
		return g.explain(state, "", err)
	}
	defer conn.Close()
	if home == datafile.Same && checkpoint(ctx, conn) == nil && state == datafile.Same {
		return g.explainWritten()
	}
	saved := g.path + datafile.SavedMark + now
	if err := saveCopy(ctx, conn, saved); err != nil {
		return g.explain(state, "", err)
	}
	for _, path := range own {
		os.Remove(path) // its content is in the copy; leaving it is harmless
	}
	return g.explain(state, saved, nil)
}

// setAside renames a -wal or -shm that does not belong to the database file with its name: SQLite would apply it to
// that file and destroy it. ours is true if that file belongs to this database. It returns the new paths of this
// database's own files.
func (g *guard) setAside(ours bool, now string) (own []string) {
	for _, f := range []datafile.File{g.wal, g.shm} { // in this order: an index without its log is harmless
		state, err := f.State()
		if err != nil || state == datafile.Missing || (state == datafile.Same) == ours {
			continue
		}
		aside := f.Path() + datafile.SavedMark + now
		switch err := os.Rename(f.Path(), aside); {
		case err != nil:
			g.notes = append(g.notes, fmt.Sprintf("%s does not belong to it and cannot be renamed (%v): remove it",
				f.Path(), err))
		case ours:
			g.notes = append(g.notes, fmt.Sprintf("the file that replaced %s was renamed to %s", f.Path(), aside))
		default:
			own = append(own, aside)
		}
	}
	return own
}

// checkpoint writes all of the log to the database's file.
func checkpoint(ctx context.Context, conn *sql.Conn) error {
	var busy, logged, written int
	if err := conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(FULL)").Scan(&busy, &logged, &written); err != nil {
		return err
	}
	if busy != 0 || logged != written {
		return fmt.Errorf("only %d of %d pages of the log were written", written, logged)
	}
	return nil
}

// saveCopy writes the whole content of the database to a new file that only its owner can read. The file gets its
// name after it is complete and on the disk.
func saveCopy(ctx context.Context, conn *sql.Conn, path string) error {
	fresh := path + incomplete
	err := createPrivate(fresh)
	if err != nil {
		return err
	}
	if _, err = conn.ExecContext(ctx, "VACUUM INTO ?", fresh); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	for _, name := range []string{path, filepath.Dir(path)} {
		if err := datafile.Sync(name); err != nil {
			return err
		}
	}
	return nil
}

// createPrivate creates an empty file that only its owner can read and write; SQLite gives -wal and -shm the same
// rights. It returns an error if the file exists.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// explain returns the fault for a lost database: saved is the copy, or err says why there is none.
func (g *guard) explain(state datafile.State, saved string, err error) error {
	path, happened := g.path, g.happened(state)
	if err != nil {
		return fault.New(fault.Unavailable, "%s, and its content could not be saved: %w; put back the file if it "+
			"was moved, or restore a backup, remove %s-wal and %s-shm of another database, and start Berth again",
			happened, err, path, path)
	}
	if state == datafile.Replaced {
		return fault.New(fault.Unavailable, "%s, and nothing was written to the new file; start Berth again to "+
			"use the new file. To go back, first rename %s to %s: this copy contains all acknowledged writes",
			happened, saved, path)
	}
	return fault.New(fault.Unavailable, "%s; all acknowledged writes are in the copy %s: rename it to %s and "+
		"start Berth again", happened, saved, path)
}

// explainWritten returns the fault for a database that lost its log or index after everything was written to its own
// file.
func (g *guard) explainWritten() error {
	return fault.New(fault.Unavailable, "%s; all acknowledged writes are in %s now: start Berth again",
		g.happened(datafile.Same), g.path)
}

// happened returns which file was lost, and how; state is that of the database's own file.
func (g *guard) happened(state datafile.State) string {
	text := fmt.Sprintf("the database file %s was %s while Berth was using it", g.path, state)
	if state == datafile.Same {
		text = fmt.Sprintf("%s, a part of the database %s, was %s while Berth was using it",
			g.first.Path(), g.path, g.how)
	}
	return strings.Join(append([]string{text}, g.notes...), "; ")
}

// checkSaved returns a fault Conflict if the database was lost and saved, because a new one would be empty.
func checkSaved(path string) error {
	saved, err := datafile.LastSaved(path, incomplete)
	if err != nil || saved == "" {
		return nil // SQLite reports what is wrong with the directory
	}
	return fault.New(fault.Conflict, "the database file %s is missing, and %s has its content from "+
		"when it was lost; rename it to %s to continue with it, or move it elsewhere to begin with an empty database",
		path, saved, path)
}
