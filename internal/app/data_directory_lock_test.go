package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// A data directory can be locked once, and again after the lock is closed.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	held, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("a second one: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
