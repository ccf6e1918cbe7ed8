package store

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestDatabaseOfAnOlderBerthIsRefused checks that a database with the version table of the versions before this one is
// refused with a sentence that says what to do.
func TestDatabaseOfAnOlderBerthIsRefused(t *testing.T) {
	_, db := openFile(t)
	execute(t, db, "CREATE TABLE compute_versions (version INTEGER NOT NULL PRIMARY KEY)")
	_, err := Open(t.Context(), db)
	for _, want := range []string{"table compute_versions", "an earlier Berth", "name an empty database"} {
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
