package datafile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Others can pass through the directory with any mask of modes; further rights of an existing one stay.
func TestMakePassable(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for name, c := range map[string]struct{ before, want os.FileMode }{"new": {0, 0o711}, "own": {0o700, 0o711},
		"readable": {0o755, 0o755}, "group": {0o750, 0o751}} {
		path := filepath.Join(t.TempDir(), name)
		if c.before != 0 {
			must(t, os.Mkdir(path, 0o700))
			must(t, os.Chmod(path, c.before))
		}
		must(t, MakePassable(path))
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != c.want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if err := MakePassable(file); err == nil {
		t.Error("a file is accepted")
	}
}
