package store

import (
	"path/filepath"
	"testing"

	"github.com/openberth/berth/sqldb"
)

// openFile opens a store on a new SQLite file.
func openFile(t *testing.T) (*Store, *sqldb.DB) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

func execute(t *testing.T, db *sqldb.DB, statement string, values ...any) {
	t.Helper()
	err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), statement, values...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// storedRecord reads the record of one row.
func storedRecord(t *testing.T, db *sqldb.DB, query string, values ...any) (record string) {
	t.Helper()
	err := db.Read(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), query, values...).Scan(&record)
	})
	if err != nil {
		t.Fatal(err)
	}
	return record
}
