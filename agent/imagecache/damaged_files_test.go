package imagecache

import (
	"os"
	"strings"
	"testing"
)

// A copy of an image, or the file with its sum, is damaged: the fault names the file, and nothing is removed. When the
// operator has removed the file, the image is served again.
func TestDamagedFiles(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"empty":       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"unreadable":  func(path string) error { return os.Symlink(path, path) },
	} {
		for _, sum := range []bool{false, true} {
			c := newCache(t, newService("x"))
			base, err := c.Get(t.Context(), id)
			must(t, err)
			file := base.Path
			if sum {
				file = SumFile(base.Path)
			}
			must(t, os.Remove(file))
			must(t, damage(file))
			_, err = c.Get(t.Context(), id)
			repaired := sum && name != "a directory" // the sum is computed again
			if (err == nil) != repaired || err != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("%s: %s: %v", name, file, err)
			}
			if _, err := os.Lstat(base.Path); err != nil {
				t.Error(err)
			}
			must(t, os.RemoveAll(file))
			if again, err := c.Get(t.Context(), id); err != nil || again.Path != base.Path {
				t.Errorf("%s: %s removed: %+v %v", name, file, again, err)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
