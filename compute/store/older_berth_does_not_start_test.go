package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// TestOlderBerthDoesNotStart checks that a Berth that reads only version 1 does not start, because it would read a
// record of version 2 as an empty server.
func TestOlderBerthDoesNotStart(t *testing.T) {
	_, db := openFile(t)
	before := schemaMigrations()
	before = before[:slices.IndexFunc(before, func(s sqldb.Migration) bool { return s.Name == "compute_records_2" })]
	err := sqldb.Migrate(t.Context(), db, versionTable, before)
	const why = "a newer Berth wrote this database; start that one"
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %q", err, why)
	}
}
