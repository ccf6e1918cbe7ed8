package datafile

import (
	"os"
	"path/filepath"
	"testing"
)

// LastSaved returns the newest complete copy of this file, and nothing while the file exists.
func TestLastSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	want := func(name string) {
		t.Helper()
		if name != "" {
			name = path + name
		}
		if got, err := LastSaved(path, ".incomplete"); err != nil || got != name {
			t.Errorf("got %q, %v, want %q", got, err, name)
		}
	}
	create := func(name string) {
		t.Helper()
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want("")
	for _, name := range []string{".saved-1", ".saved-3.incomplete", ".other-9"} {
		create(path + name)
	}
	want(".saved-1")
	create(path + ".saved-2")
	create(filepath.Join(filepath.Dir(path), "b.db.saved-5"))
	want(".saved-2")
	create(path)
	want("")
	if _, err := LastSaved(filepath.Join(filepath.Dir(path), "none", "a.db"), ".incomplete"); err == nil {
		t.Error("a directory that does not exist is not an error")
	}
}
