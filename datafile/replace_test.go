package datafile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	must(t, os.WriteFile(path+Unfinished, []byte("the longer content of a process that was killed"), 0o600))
	for _, content := range []string{"first", "2"} {
		must(t, Replace(path, []byte(content)))
		got, err := os.ReadFile(path)
		must(t, err)
		if string(got) != content {
			t.Errorf("the file has %q, want %q", got, content)
		}
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the rights %v", info.Mode())
	}
	wantNames(t, dir, "file")

	must(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	if err := Replace(filepath.Join(dir, "taken"), []byte("x")); err == nil {
		t.Error("a directory was replaced by a file")
	}
	wantNames(t, dir, "file", "taken")
	if err := Replace(filepath.Join(dir, "missing", "file"), nil); err == nil {
		t.Error("a file was written to a directory that does not exist")
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, one := range entries {
		got = append(got, one.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}
