package datafile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/fault"
)

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
