package store

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/sqldb"
)

// capturedRows reads the rows of a table that a Berth with records of version 1 has written; see
// testdata/records-v1/README.md.
func capturedRows(t testing.TB, file string) (rows []map[string]any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "records-v1", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.UseNumber()
		row := map[string]any{}
		if err := decoder.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil || len(rows) == 0 {
		t.Fatalf("%s has %d rows: %v", file, len(rows), err)
	}
	return rows
}

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

// openCaptured opens a store on a database with the captured rows.
func openCaptured(t *testing.T) (*Store, *sqldb.DB) {
	t.Helper()
	s, db := openFile(t)
	for file, table := range map[string]string{
		"captured-server-rows.jsonl": "compute_servers", "captured-host-rows.jsonl": "compute_hosts",
		"captured-residence-rows.jsonl": "compute_residences",
	} {
		for _, row := range capturedRows(t, file) {
			var names, marks []string
			var values []any
			for name, value := range row {
				if n, is := value.(json.Number); is {
					value = n.String()
				}
				names, marks, values = append(names, name), append(marks, "?"), append(values, value)
			}
			execute(t, db, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)",
				table, strings.Join(names, ", "), strings.Join(marks, ", ")), values...)
		}
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
