package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory in which no agent has run is refused and not created.
func TestAdoptInAnUnknownDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mistyped")
	if stdout, stderr, status := output(t, "agent", "adopt", "--data-dir", dir); status != 1 || stdout != "" ||
		!strings.Contains(stderr, "no agent has run in this directory") {
		t.Errorf("status %d: %s %s", status, stdout, stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was created: %v", err)
	}
}
