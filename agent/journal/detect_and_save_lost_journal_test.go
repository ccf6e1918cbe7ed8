package journal

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// After its file or its lock was deleted or replaced, a journal accepts no entry, whether or not the last write
// succeeded; its state is saved.
func TestLoss(t *testing.T) {
	replace := func(t *testing.T, path string) {
		ok(t, os.WriteFile(path+".other", []byte("another file\n"), 0o600))
		ok(t, os.Rename(path+".other", path))
	}
	remove := func(t *testing.T, path string) { ok(t, os.Remove(path)) }
	for _, c := range []struct {
		name, file, message string
		lose                func(t *testing.T, path string)
		broken              bool // the last write failed, so the next one replaces the file
	}{
		{"deleted", fileName, "was deleted or moved", remove, false},
		{"replaced", fileName, "was replaced by another file", replace, false},
		{"replaced after a failed write", fileName, "was replaced by another file", replace, true},
		{"lock deleted", lockName, "another agent could start", remove, false},
		{"lock replaced", lockName, "another agent could start", replace, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, dir)
			want := fill(t, j)
			if c.broken {
				ok(t, j.file.Close())
				if j.Write(Put("s9", nil)) == nil {
					t.Fatal("a write to a closed file succeeded")
				}
			}
			if err := j.Loss(); err != nil {
				t.Fatalf("lost before a change: %v", err)
			}
			path := filepath.Join(dir, c.file)
			c.lose(t, path)
			for range 2 {
				err := j.Write(Put("s9", nil))
				if text := fault.TextOf(err); !fault.Is(err, fault.Unavailable) || !strings.HasPrefix(text, path+" was ") ||
					!strings.Contains(text, c.message) {
					t.Errorf("%v", err)
				}
			}
			if err := j.Loss(); !strings.Contains(fault.TextOf(err), "start the agent again") {
				t.Errorf("%v", err)
			}
			if got := j.State(); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			if data, err := os.ReadFile(path); err == nil && c.file == fileName && string(data) != "another file\n" {
				t.Errorf("the new file has %q", data)
			}
			saved, err := filepath.Glob(path + datafile.SavedMark + "*")
			if err != nil || (len(saved) == 1) != (c.file == fileName) {
				t.Fatalf("saved: %v %v", saved, err)
			}
			ok(t, j.Close())
			if c.file == lockName {
				return
			}
			if c.message == "was deleted or moved" {
				if _, err := Open(dir); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err), saved[0]) {
					t.Errorf("opened without its file: %v", err)
				}
			}
			ok(t, os.Rename(saved[0], path))
			if got := open(t, dir).State(); !reflect.DeepEqual(got, want) {
				t.Errorf("the copy has %+v\nwant %+v", got, want)
			}
		})
	}
}

// A loss is detected without a write, too.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir)
		watched := make(chan struct{})
		go func() { j.Watch(t.Context()); close(watched) }()
		ok(t, j.Write(Identity{Host: "cmp1"}.Entry())) // a write of the journal itself is not a loss
		ok(t, os.Remove(filepath.Join(dir, fileName)))
		<-watched
		if j.Loss() == nil {
			t.Error("Watch returned without a loss")
		}
	})
}
