package sqldb

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSQLitePragmas checks the settings that durability and the use by several processes need.
func TestSQLitePragmas(t *testing.T) {
	db := open(t, fileURL(t))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "0",
		"busy_timeout": "5000"} {
		var got string
		must(t, db.writer.pool.QueryRow("PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
	if _, err := db.pool.ExecContext(t.Context(), "DELETE FROM thing"); err == nil {
		t.Error("a reading connection wrote")
	}
}

// TestFilesArePrivate checks that only the owner has rights on the files, also on those of an earlier release.
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

// TestDatabaseBehindSymbolicLink checks that the other files are in the directory of the link's target, and that a
// changed link is detected as a loss.
func TestDatabaseBehindSymbolicLink(t *testing.T) {
	dir := t.TempDir()
	link, path := filepath.Join(dir, "link.db"), filepath.Join(dir, "elsewhere", "real.db")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, os.Symlink(path, link))
	db := open(t, "sqlite:///"+link)
	must(t, db.Write(t.Context(), insertRow("kept")))
	if got := strings.Join(db.Narrowed, " "); got != path {
		t.Errorf("narrowed: %q", got)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Error(err)
	}
	must(t, os.Remove(link))
	must(t, os.Symlink(filepath.Join(dir, "nowhere"), link))
	wantLoss(t, db, link+" was deleted or moved", "rename it to "+link)
	again, err := Open(t.Context(), "sqlite:///"+path) // the target has all content
	must(t, err)
	defer again.Close()
	wantNames(t, again, "kept")
}
