package conformance

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

// sqliteFile returns the URL of the SQLite database of a server with its files in dir, in SQLAlchemy's form.
func sqliteFile(dir string) string { return "sqlite:///" + filepath.Join(dir, "placement.db") }

// openDatabase returns the database at a URL, which has the same tables on both sides. A file need not exist before
// the first statement.
func openDatabase(address string) (*sql.DB, error) {
	if file, ok := strings.CutPrefix(address, "sqlite:///"); ok {
		return sql.Open("sqlite", "file:"+file+"?"+url.Values{"mode": {"rw"},
			"_pragma": {"busy_timeout(60000)"}}.Encode())
	}
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if dialect, _, _ := strings.Cut(at.Scheme, "+"); dialect == "postgresql" {
		at.Scheme, at.RawQuery = dialect, "sslmode=disable"
		return sql.Open("pgx", at.String())
	}
	return sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)%s", at.User, at.Host, at.Path))
}

// generationQueries are the statements for the generation of the object with a UUID, by the ending of its name in
// sequences. A consumer is visible to clients while it has allocations.
var generationQueries = map[string]string{
	".gen":  "SELECT generation FROM resource_providers WHERE uuid = '%s'",
	".cgen": "SELECT generation FROM consumers WHERE uuid = '%s' AND uuid IN (SELECT consumer_id FROM allocations)",
}

// generation returns the generation of the provider (.gen) or consumer (.cgen) with a UUID, or missing if there is
// none. It reads the database, because requests would be a fifth of all and are slow in the original.
func (s *Server) generation(kind, id, missing string) (string, error) {
	var number int
	err := s.db.QueryRow(fmt.Sprintf(generationQueries[kind], id)).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return missing, nil
	}
	return fmt.Sprint(number), err
}

// emptyStatements delete everything that clients can create in the original. MariaDB checks references after each row,
// so those between providers are removed first.
var emptyStatements = slices.Concat([]string{
	"DELETE FROM allocations",
	"DELETE FROM consumers",
	"DELETE FROM inventories",
	"DELETE FROM resource_provider_aggregates",
	"DELETE FROM resource_provider_traits",
	"UPDATE resource_providers SET parent_provider_id = NULL, root_provider_id = NULL",
	"DELETE FROM resource_providers",
	"DELETE FROM placement_aggregates",
	"DELETE FROM resource_classes WHERE name LIKE 'CUSTOM!_%' ESCAPE '!'",
	"DELETE FROM traits WHERE name LIKE 'CUSTOM!_%' ESCAPE '!'",
}, ownerStatements)

// ownerStatements delete the users, projects and types of consumers that no consumer has.
var ownerStatements = []string{"DELETE FROM projects", "DELETE FROM users", "DELETE FROM consumer_types"}

// execute executes statements in a transaction. The server must not keep in memory what they change.
func (s *Server) execute(statements []string) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := tx.Exec(statement); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", statement, err), tx.Rollback())
		}
	}
	return tx.Commit()
}
