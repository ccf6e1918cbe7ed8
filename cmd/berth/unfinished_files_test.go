package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Files that a killed agent was writing are removed at the next start, but not by a dry run, which may run beside an
// agent.
func TestUnfinishedFilesAreRemovedAtTheStart(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir, path := t.TempDir(), conf(t, machine(t, 1, 1))
	guests := filepath.Join(dir, "agent", "guests")
	if err := os.MkdirAll(guests, 0o700); err != nil {
		t.Fatal(err)
	}
	unfinished := []string{filepath.Join(guests, "g.json.new"), filepath.Join(dir, "agent", "journal.new")}
	for _, name := range unfinished {
		if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := up(t, path, t.TempDir())
	if stdout, stderr, status := output(t, "agent", "plan", "--config-file", path, "--data-dir", dir,
		"--placement-url", d.urls["placement"], "--compute-url", d.urls["compute"]); status != 0 {
		t.Fatal(stdout, stderr)
	}
	for _, name := range unfinished {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("after a dry run: %v", err)
		}
	}
	d.stop(t)
	d = up(t, path, dir)
	for _, name := range unfinished {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s was not removed: %v", name, err)
		}
	}
	d.stop(t)
}
