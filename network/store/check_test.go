package store

import (
	"slices"
	"testing"

	"github.com/openberth/berth/sqldb"
)

// Every table with records has a kind, so no record is left unread.
func TestKindsAreComplete(t *testing.T) {
	db, err := sqldb.Open(t.Context(), "sqlite://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := Open(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	var tables, have []string
	for _, kind := range kinds() {
		have = append(have, kind.table())
	}
	if err := db.Read(t.Context(), func(tx *sqldb.Tx) (err error) {
		tables, err = sqldb.QueryTexts(t.Context(), tx, `SELECT m.name FROM sqlite_master m
			JOIN pragma_table_info(m.name) c ON c.name = 'record' WHERE m.type = 'table'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(tables)
	slices.Sort(have)
	if len(tables) == 0 || !slices.Equal(tables, have) {
		t.Errorf("tables %v, kinds %v", tables, have)
	}
	if bad, n, err := Unreadable(t.Context(), db); err != nil || n != 0 || len(bad) != 0 {
		t.Errorf("%v %d %v", bad, n, err)
	}
}
