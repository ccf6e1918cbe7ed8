package sqldb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// openFile returns a database in a file, with one row, and the file's path.
func openFile(t *testing.T) (*DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data", "some [x] file.db")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	db := open(t, "sqlite:///"+path)
	must(t, db.Write(t.Context(), insertRow("kept")))
	return db, path
}

// wantLoss waits until the loss is detected without a transaction. It checks that all transactions fail and that the
// reason contains these words.
func wantLoss(t *testing.T, db *DB, words ...string) {
	t.Helper()
	select {
	case <-db.Lost():
	case <-time.After(testenv.Patience):
		t.Fatal("the loss was not detected")
	}
	ran := func(*Tx) error { t.Error("a transaction ran"); return nil }
	for _, err := range []error{db.Available(), db.Write(t.Context(), ran), db.Read(t.Context(), ran)} {
		if !fault.Is(err, fault.Unavailable) || IsUnknown(err) || strings.Contains(err.Error(), ".db") {
			t.Errorf("%v", err)
		}
	}
	for _, word := range words {
		if text := fault.TextOf(db.Loss()); !strings.Contains(text, word) {
			t.Errorf("no %q in: %s", word, text)
		}
	}
}

func savedFiles(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), datafile.SavedMark) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// TestDeletedFileIsSaved deletes the database: its content is saved, and Open does not create an empty database.
func TestDeletedFileIsSaved(t *testing.T) {
	db, path := openFile(t)
	must(t, os.Remove(path))
	wantLoss(t, db, path+" was deleted or moved", "rename it to "+path)
	must(t, db.Close())
	saved := savedFiles(t, filepath.Dir(path))
	if len(saved) != 1 {
		t.Fatalf("saved: %q", saved)
	}
	_, err := Open(t.Context(), "sqlite:///"+path)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err), saved[0]) {
		t.Errorf("opened without its file: %v", err)
	}
	must(t, os.Rename(saved[0], path))
	again, err := Open(t.Context(), "sqlite:///"+path)
	must(t, err)
	defer again.Close()
	wantNames(t, again, "kept")
}

// TestNewConnectionRejectsReplacedFile replaces the file: a new connection would read the new file with the old log.
func TestNewConnectionRejectsReplacedFile(t *testing.T) {
	db, path := openFile(t)
	other := filepath.Join(filepath.Dir(path), "other")
	must(t, os.WriteFile(other, []byte("no database"), 0o600))
	db.guard.close() // only the connection itself can detect the change
	must(t, os.Rename(other, path))
	inside := func(*Tx) error { t.Error("it read"); return nil }
	held, err := db.pool.Conn(t.Context()) // the idle connection
	must(t, err)
	defer held.Close()
	if err := db.Read(t.Context(), inside); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(),
		"deleted, moved or replaced") {
		t.Errorf("%v", err)
	}
	if data, err := os.ReadFile(path); string(data) != "no database" || err != nil {
		t.Errorf("the new file has %q: %v", data, err)
	}
}

// TestFileLostDuringCommitLeavesOutcomeUnknown deletes the file between the checks before and after a COMMIT.
func TestFileLostDuringCommitLeavesOutcomeUnknown(t *testing.T) {
	db, path := openFile(t)
	err := db.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(insertRow("uncertain")(tx), os.Remove(path))
	})
	if !IsUnknown(err) || fault.CodeOf(err) != CodeUnknown {
		t.Errorf("%v", err)
	}
	wantLoss(t, db)
}

// TestMovedDirectoryCannotBeSaved moves the whole directory, so that no copy can be saved; the reason contains this.
func TestMovedDirectoryCannotBeSaved(t *testing.T) {
	db, path := openFile(t)
	moved := filepath.Join(filepath.Dir(filepath.Dir(path)), "moved")
	must(t, os.Rename(filepath.Dir(path), moved))
	wantLoss(t, db, path+" was deleted or moved", "could not be saved", "put back the file if it was moved")
	must(t, db.Close())
	must(t, os.Rename(moved, filepath.Dir(path)))
	again, err := Open(t.Context(), "sqlite:///"+path)
	must(t, err)
	defer again.Close()
	wantNames(t, again, "kept")
}

// TestDeletedLogIsSavedAsCopy deletes the log while a reader prevents that it is written to the database.
func TestDeletedLogIsSavedAsCopy(t *testing.T) {
	db, path := openFile(t)
	onWriter(t, db, "PRAGMA busy_timeout = 0")
	read := make(chan error)
	reading, done := make(chan struct{}), make(chan struct{})
	go func() {
		read <- db.Read(context.Background(), func(tx *Tx) error {
			err := tx.QueryRow(t.Context(), "SELECT COUNT(*) FROM thing").Scan(new(int))
			close(reading)
			<-done
			return err
		})
	}()
	<-reading
	must(t, db.Write(t.Context(), insertRow("kept too")))
	must(t, os.Remove(path+"-wal"))
	wantLoss(t, db, "-wal, a part of the database "+path, "all acknowledged writes are in the copy")
	close(done)
	must(t, <-read)
	saved := savedFiles(t, filepath.Dir(path))
	if len(saved) != 1 {
		t.Fatalf("saved: %q", saved)
	}
	again, err := Open(t.Context(), "sqlite:///"+saved[0])
	must(t, err)
	defer again.Close()
	wantNames(t, again, "kept", "kept too")
}
