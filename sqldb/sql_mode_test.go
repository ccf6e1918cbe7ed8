package sqldb

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/databases"
)

// TestModesOfTheServer checks that modes which an operator has set for the whole server do not change what is stored
// and read.
func TestModesOfTheServer(t *testing.T) {
	server := databases.MariaDB(t)
	admin := server.Admin(t)
	for _, statement := range []string{"SET GLOBAL sql_mode = 'ONLY_FULL_GROUP_BY'", "SET GLOBAL autocommit = 0"} {
		if _, err := admin.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	url := server.Database(t)
	db, other := open(t, url), (*DB)(nil)
	if err := db.Write(t.Context(), insertRow(strings.Repeat("x", 65))); err == nil {
		t.Error("a text was stored that is too long for its column")
	}
	must(t, db.Write(t.Context(), insertRow("a")))
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(t.Context(), "SELECT name, COUNT(*) FROM thing GROUP BY id").Scan(new(string), new(int))
	}))
	other, err := Open(t.Context(), url)
	must(t, err)
	defer other.Close()
	count := func(db *DB) (n int) {
		must(t, db.ReadOne(t.Context(), func(tx *Tx) error {
			return tx.QueryRow(t.Context(), "SELECT COUNT(*) FROM thing").Scan(&n)
		}))
		return n
	}
	before := count(other)
	must(t, db.Write(t.Context(), insertRow("b")))
	if after := count(other); after != before+1 {
		t.Errorf("%d rows after a write of another, before it %d", after, before)
	}
}
