package sqldb

import (
	"testing"

	"github.com/openberth/berth/internal/databases"
)

// TestDataVersionChangesWithOtherWriters checks that the number changes with the writes of other connections only.
func TestDataVersionChangesWithOtherWriters(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	number := func() int64 {
		n, ok, err := db.DataVersion(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return n
	}
	first := number()
	must(t, db.Write(t.Context(), insertRow("mine")))
	wantNames(t, db, "mine")
	wantNames(t, other, "mine")
	if n := number(); n != first {
		t.Errorf("the version is %d after an own write, before it %d", n, first)
	}
	must(t, other.Write(t.Context(), insertRow("theirs")))
	second := number()
	if second == first {
		t.Errorf("the version is still %d after a write of another", second)
	}
	if n := number(); n != second {
		t.Errorf("the version is %d without a write, before it %d", n, second)
	}
	db = open(t, databases.SharedMariaDB(t).Database(t))
	if _, ok, err := db.DataVersion(t.Context()); ok || err != nil {
		t.Error(ok, err)
	}
}
