package datafile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	must(t, os.Mkdir(dir, 0o700))
	write := func(path string) { must(t, os.WriteFile(path, []byte("x"), 0o600)) }
	write(path)
	f, err := At(path)
	must(t, err)
	held, err := os.Open(path) // as a process holds it: its inode is not given to another file
	must(t, err)
	defer held.Close()
	for _, step := range []struct {
		name string
		do   func()
		want State
	}{
		{"nothing happened", func() {}, Same},
		{"its content changed", func() { write(path) }, Same},
		{"another took its place", func() { write(other); must(t, os.Rename(other, path)) }, Replaced},
		{"it is gone", func() { must(t, os.Remove(path)) }, Missing},
		{"it was made again", func() { write(path) }, Replaced},
		{"its directory is a file", func() { must(t, os.RemoveAll(dir)); write(dir) }, Missing},
	} {
		step.do()
		if got, err := f.State(); got != step.want || err != nil {
			t.Errorf("%s: %s, %v", step.name, got, err)
		}
	}
	if got, err := (File{}).State(); got != Same || err != nil {
		t.Errorf("the zero value: %s, %v", got, err)
	}
	if _, err := At(path); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestNarrow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	must(t, os.WriteFile(path, nil, 0o600))
	for _, c := range []struct {
		path        string
		before, now os.FileMode
	}{{path, 0o644, 0o600}, {path, 0o466, 0o400}, {path, 0o600, 0o600}, {dir, 0o755, 0o700}} {
		must(t, os.Chmod(c.path, c.before))
		changed, err := Narrow(c.path)
		info, statErr := os.Stat(c.path)
		must(t, statErr)
		if err != nil || changed != (c.before != c.now) || info.Mode().Perm() != c.now {
			t.Errorf("%04o: changed %t to %04o: %v", c.before, changed, info.Mode().Perm(), err)
		}
	}
	if _, err := Narrow(filepath.Join(dir, "none")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A file of another user is refused with what to do. The test becomes another user for it, or uses a file of root's.
func TestNarrowAFileOfAnotherUser(t *testing.T) {
	path := "/etc/passwd"
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chmod(path, 0o644))
		for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			must(t, os.Chmod(dir, 0o755))
		}
		must(t, syscall.Seteuid(65534))
		defer func() { must(t, syscall.Seteuid(0)) }()
	}
	_, err := Narrow(path)
	if !fault.Is(err, fault.Forbidden) || !strings.Contains(fault.TextOf(err), "chmod go= "+path) {
		t.Errorf("%v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
