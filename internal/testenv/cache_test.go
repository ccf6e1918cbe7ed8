package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Files are made once for each key, and copied with their modes; those of an attempt that failed are not kept.
func TestFill(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	made := 0
	fill := func(key string, broken error) (mode os.FileMode, err error) {
		dir := t.TempDir()
		err = Fill(dir, "cp", []string{key}, func() error {
			made++
			must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "sub", "file"), []byte(key), 0o640))
			return broken
		})
		text, read := os.ReadFile(filepath.Join(dir, "sub", "file"))
		must(t, read)
		if string(text) != key {
			t.Errorf("the file of %s has %q", key, text)
		}
		info, read := os.Stat(filepath.Join(dir, "sub", "file"))
		must(t, read)
		return info.Mode(), err
	}
	broken := errors.New("broken")
	if _, err := fill("a", broken); !errors.Is(err, broken) {
		t.Error(err)
	}
	for i, key := range []string{"a", "a", "b", "a", "b"} {
		if mode, err := fill(key, nil); err != nil || mode != 0o640 {
			t.Errorf("call %d: %v %v", i, mode, err)
		}
	}
	if made != 3 {
		t.Errorf("made %d times, want 3: one failed, and there are two keys", made)
	}
}
