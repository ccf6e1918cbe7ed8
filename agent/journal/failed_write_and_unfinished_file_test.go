package journal

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// A journal that cannot be replaced because the disk is full leaves no file; an incomplete file of a killed agent is
// removed at the next start.
func TestNoUnfinishedFileIsLeft(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	want := fill(t, j)
	fresh := filepath.Join(dir, fileName+".new")
	ok(t, os.Symlink("/dev/full", fresh)) // a write there fails with a full disk
	j.mu.Lock()
	err := j.replace(j.State())
	j.mu.Unlock()
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(fresh); !os.IsNotExist(err) {
		t.Errorf("the unfinished file is left: %v", err)
	}
	ok(t, j.Close())
	ok(t, os.WriteFile(fresh, []byte("{"), 0o600))
	if again := open(t, dir); !reflect.DeepEqual(again.State(), want) {
		t.Errorf("%+v", again.State())
	}
	if _, err := os.Lstat(fresh); !os.IsNotExist(err) {
		t.Errorf("a file of a killed agent is left: %v", err)
	}
}

// A write that fails changes nothing, and the next one repairs the file.
func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	ok(t, j.Write(Put("s1", nil)))
	j.file.Close() // as when the disk fails
	if err := j.Write(Put("s2", nil)); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("wrote: %v", err)
	}
	if _, has := j.State().Of("s2"); has {
		t.Error("the state has an entry that was not written")
	}
	ok(t, j.Write(Put("s3", nil)))
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got.Servers(), []string{"s1", "s3"}) {
		t.Errorf("%v %v", got.Servers(), err)
	}
}
