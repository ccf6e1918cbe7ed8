package sqldb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// openFile gives a database in a file, with a row, and the file's path. It may be lost.
func openFile(t *testing.T) (*DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data", "some [x] file.db")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	db := open(t, "sqlite:///"+path)
	must(t, db.Write(t.Context(), inserting("kept")))
	return db, path
}

// wantLoss waits until the loss was noticed without any transaction, and wants all transactions to fail and the loss
// to say these words.
func wantLoss(t *testing.T, db *DB, words ...string) {
	t.Helper()
	select {
	case <-db.Lost():
	case <-time.After(time.Minute):
		t.Fatal("the loss is not noticed")
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

// A deleted database is noticed within a second without a write. Its content is saved, and no empty one takes its
// place.
func TestFileDeleted(t *testing.T) {
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

// A connection that is opened after the file was replaced would read the new file together with the old log; it is
// refused.
func TestFileReplacedBeforeAConnection(t *testing.T) {
	db, path := openFile(t)
	other := filepath.Join(filepath.Dir(path), "other")
	must(t, os.WriteFile(other, []byte("no database"), 0o600))
	db.guard.close() // nothing is noticed but by the connection itself
	must(t, os.Rename(other, path))
	inside := func(*Tx) error { t.Error("it read"); return nil }
	held, err := db.pool.Conn(t.Context()) // the one that is idle
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

// Nobody can tell a client whether a write was kept when the file was lost between its checks.
func TestFileLostDuringCommit(t *testing.T) {
	db, path := openFile(t)
	err := db.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(inserting("doubtful")(tx), os.Remove(path))
	})
	if !IsUnknown(err) || fault.CodeOf(err) != CodeUnknown {
		t.Errorf("%v", err)
	}
	wantLoss(t, db)
}

// Where no copy can be saved, as after the whole directory was moved, the loss says so.
func TestDirectoryMoved(t *testing.T) {
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

// When the log cannot be written to the database, as while a reader needs what it has, all is in a copy.
func TestLogDeletedWhileItIsRead(t *testing.T) {
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
	must(t, db.Write(t.Context(), inserting("kept too")))
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

// Only the owner may use a database's files, also one that an earlier release has made.
func TestFilesArePrivate(t *testing.T) {
	mask := syscall.Umask(0)
	defer syscall.Umask(mask)
	db, path := openFile(t)
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, info.Mode(), err)
		}
	}
	if len(db.Narrowed) != 0 {
		t.Errorf("narrowed: %q", db.Narrowed)
	}
	for _, file := range []string{path, path + "-wal"} {
		must(t, os.Chmod(file, 0o664))
	}
	other, err := Open(t.Context(), "sqlite:///"+path)
	must(t, err)
	defer other.Close()
	if got := strings.Join(other.Narrowed, " "); got != path+" "+path+"-wal" {
		t.Errorf("narrowed: %q", got)
	}
	for _, file := range []string{path, path + "-wal"} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, info.Mode(), err)
		}
	}
	wantNames(t, other, "kept")
}

// A database behind a symbolic link: its other files lie beside the file itself. Leading the link elsewhere is a loss.
func TestFileBehindALink(t *testing.T) {
	dir := t.TempDir()
	link, path := filepath.Join(dir, "link.db"), filepath.Join(dir, "elsewhere", "real.db")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, os.Symlink(path, link))
	db := open(t, "sqlite:///"+link)
	must(t, db.Write(t.Context(), inserting("kept")))
	if got := strings.Join(db.Narrowed, " "); got != path {
		t.Errorf("narrowed: %q", got)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Error(err)
	}
	must(t, os.Remove(link))
	must(t, os.Symlink(filepath.Join(dir, "nowhere"), link))
	wantLoss(t, db, link+" was deleted or moved", "rename it to "+link)
	again, err := Open(t.Context(), "sqlite:///"+path) // it is whole where it was
	must(t, err)
	defer again.Close()
	wantNames(t, again, "kept")
}
