package datafile

import (
	"os"
	"path/filepath"
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
