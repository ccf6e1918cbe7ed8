package conformance

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

// databaseFile returns the path of the SQLite database of a server with its files in dir.
func databaseFile(dir string) string { return filepath.Join(dir, "placement.db") }

// openDatabase returns the database of a server, which has the same tables on both sides. The file need not exist
// before the first statement.
func openDatabase(dir string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+databaseFile(dir)+"?"+url.Values{"mode": {"rw"},
		"_pragma": {"busy_timeout(60000)"}}.Encode())
}

// generationQueries are the statements for the generation of the object with a UUID, by the ending of its name in
// sequences. A consumer is visible to clients while it has allocations.
var generationQueries = map[string]string{
	".gen":  "SELECT generation FROM resource_providers WHERE uuid = ?",
	".cgen": "SELECT generation FROM consumers WHERE uuid = ? AND uuid IN (SELECT consumer_id FROM allocations)",
}

// generation returns the generation of the provider (.gen) or consumer (.cgen) with a UUID, or missing if there is
// none. It reads the database, because requests would be a fifth of all and are slow in the original.
func (s *Server) generation(kind, id, missing string) (string, error) {
	var number int
	err := s.db.QueryRow(generationQueries[kind], id).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return missing, nil
	}
	return fmt.Sprint(number), err
}

// emptyStatements delete everything that clients can create in the original.
const emptyStatements = `
DELETE FROM allocations;
DELETE FROM consumers;
DELETE FROM inventories;
DELETE FROM resource_provider_aggregates;
DELETE FROM resource_provider_traits;
DELETE FROM resource_providers;
DELETE FROM placement_aggregates;
DELETE FROM projects;
DELETE FROM users;
DELETE FROM consumer_types;
DELETE FROM resource_classes WHERE name LIKE 'CUSTOM\_%' ESCAPE '\';
DELETE FROM traits WHERE name LIKE 'CUSTOM\_%' ESCAPE '\';
`

// emptyTables deletes everything that clients can create from the server's database. The server must not keep it in
// memory.
func (s *Server) emptyTables() error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(emptyStatements); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
