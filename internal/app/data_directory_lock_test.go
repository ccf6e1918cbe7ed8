package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// The state of a service in a data directory can be locked once, and again after the lock is closed. The services of
// one directory do not exclude each other; a process that has several services excludes each of them.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	held, err := Lock(dir, ComputeLock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir, ComputeLock); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "process ") ||
		!strings.Contains(err.Error(), "of the service compute") {
		t.Errorf("a second one: %v", err)
	}
	if _, err := Lock(dir, NetworkLock, ImageLock, ComputeLock); !fault.Is(err, fault.Conflict) {
		t.Errorf("all services: %v", err)
	}
	for _, name := range []string{NetworkLock, ImageLock} { // the failed attempt holds nothing
		other, err := Lock(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(dir, ComputeLock)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
