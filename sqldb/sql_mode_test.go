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
	if _, err := admin.Exec("SET GLOBAL sql_mode = 'ONLY_FULL_GROUP_BY'"); err != nil {
		t.Fatal(err)
	}
	db := open(t, server.Database(t))
	if err := db.Write(t.Context(), insertRow(strings.Repeat("x", 65))); err == nil {
		t.Error("a text was stored that is too long for its column")
	}
	must(t, db.Write(t.Context(), insertRow("a")))
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(t.Context(), "SELECT name, COUNT(*) FROM thing GROUP BY id").Scan(new(string), new(int))
	}))
}
