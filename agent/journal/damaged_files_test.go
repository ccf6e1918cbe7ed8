package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// A journal that cannot be read is a fault that names the file and what to do, and the file stays. An empty one, as
// after a failed disk, is an empty journal: the agent then takes the claims of the guests that run.
func TestDamagedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(path string) error
		kind   fault.Kind // empty: it is opened
	}{
		"empty":       {func(path string) error { return os.WriteFile(path, nil, 0o600) }, ""},
		"zeros":       {func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o600) }, ""},
		"garbage":     {func(path string) error { return os.WriteFile(path, []byte("x\ny\nz\n"), 0o600) }, fault.Internal},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o700) }, fault.Unavailable},
		"unreadable":  {func(path string) error { return os.Symlink(path, path) }, fault.Unavailable},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		ok(t, c.damage(path))
		j, err := Open(dir)
		if c.kind == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			ok(t, j.Write(Put("s1", nil)))
			ok(t, j.Close())
			continue
		}
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
