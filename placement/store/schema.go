package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// The schema revisions of OpenStack Placement that this package supports. It creates the first. The second, of later
// releases, only drops indexes that unique constraints made redundant.
const (
	revision         = "422ece571366" // consumer types; Placement 6.0 and later
	revisionNoDouble = "a082b8bb98d0"
)

const (
	creationTimeout = 30 * time.Second       // how long to wait for another process that creates the tables
	creationPoll    = 100 * time.Millisecond // the interval at which the tables are checked
)

// errUnfinished reports that alembic_version has no revision: another process is creating the tables, or was
// interrupted.
var errUnfinished = errors.New("the table alembic_version is empty")

//go:embed schema.sql
var schemaSQL string

// checkRevision reports whether the database is empty, and refuses one that is neither empty nor of a known revision.
func checkRevision(ctx context.Context, tx *sqldb.Tx) (empty bool, err error) {
	query := map[sqldb.Dialect]string{
		sqldb.SQLite:     "SELECT name FROM sqlite_master WHERE type = 'table'",
		sqldb.MySQL:      "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
		sqldb.PostgreSQL: "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()",
	}[tx.Dialect]
	var tables []string
	err = queryEach(ctx, tx, query, nil, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		tables = append(tables, name)
		return err
	})
	if err != nil {
		return false, err
	}
	versioned := slices.Contains(tables, "alembic_version")
	if !versioned && !slices.Contains(tables, "allocations") {
		return true, nil
	}
	found := "no revision at all"
	if versioned {
		var got string
		switch err := tx.QueryRow(ctx, "SELECT version_num FROM alembic_version").Scan(&got); {
		case err == nil && (got == revision || got == revisionNoDouble):
			return false, nil
		case err == sql.ErrNoRows:
			return false, fault.New(fault.Unavailable, "",
				"another process is creating the tables of the database, or was interrupted (%w): "+
					"try again later; if there is no such process, create the database again", errUnfinished)
		case err != nil:
			return false, err
		default:
			found = "revision " + got
		}
	}
	return false, fault.New(fault.Unavailable, "",
		"the database has tables of OpenStack Placement at %s, Berth supports revisions %s and %s: "+
			"upgrade it with `placement-manage db sync`, or give Berth an empty database", found, revision,
		revisionNoDouble)
}

// whileCreated repeats once while another process is creating the tables.
func whileCreated(ctx context.Context, once func() error) error {
	for last := time.Now().Add(creationTimeout); ; {
		err := once()
		if !errors.Is(err, errUnfinished) || time.Now().After(last) {
			return err
		}
		if backoff.Sleep(ctx, creationPoll) != nil {
			return err
		}
	}
}

// createTables creates the tables on an empty database. The first one, alembic_version, excludes other processes:
// also on the nodes of a Galera cluster, which run CREATE TABLE in one order but do not share locks. Its row is
// inserted last and marks the schema as complete.
func createTables(ctx context.Context, tx *sqldb.Tx) error {
	for i, statement := range statements(tx.Dialect) {
		_, err := tx.Exec(ctx, statement)
		if i == 0 && (sqldb.IsExisting(err) || sqldb.IsDuplicate(err)) {
			return sqldb.Retry(err) // then the next attempt waits for the tables
		}
		if err != nil {
			return fmt.Errorf("%s: %w", strings.SplitN(statement, "(", 2)[0], err)
		}
	}
	_, err := tx.Exec(ctx, "INSERT INTO alembic_version (version_num) VALUES (?)", revision)
	return err
}

// statements returns the statements of schema.sql in a dialect.
func statements(dialect sqldb.Dialect) []string {
	words := map[sqldb.Dialect][]string{
		sqldb.SQLite:     {"{id}", "INTEGER NOT NULL", "{moment}", "DATETIME"},
		sqldb.MySQL:      {"{id}", "INTEGER NOT NULL AUTO_INCREMENT", "{moment}", "DATETIME"},
		sqldb.PostgreSQL: {"{id}", "SERIAL NOT NULL", "{moment}", "TIMESTAMP WITHOUT TIME ZONE"},
	}[dialect]
	var list []string
	for statement := range strings.SplitSeq(strings.NewReplacer(words...).Replace(schemaSQL), ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			list = append(list, statement)
		}
	}
	return list
}

// addClasses adds missing standard classes. The id of a class is its position.
func (s *Store) addClasses(ctx context.Context, tx *sqldb.Tx) error {
	known, err := readTableNames(ctx, tx, "resource_classes")
	if err != nil {
		return err
	}
	for i, name := range resource.StandardClasses() {
		if known[string(name)] {
			continue
		}
		// MySQL replaces an inserted 0 by the next id, but not an updated one.
		if _, err := tx.Exec(ctx, "INSERT INTO resource_classes (created_at, id, name) VALUES (?, ?, "+
			"?)", s.now(), nonZero(i), string(name)); err != nil {
			return retryDuplicate(err)
		}
		if i == 0 {
			if _, err := tx.Exec(ctx, "UPDATE resource_classes SET id = 0 WHERE id = ?", nonZero(i)); err != nil {
				return retryDuplicate(err)
			}
		}
	}
	return nil
}

// nonZero returns i, or -1 for the first class until it gets its own id.
func nonZero(i int) int {
	if i == 0 {
		return -1
	}
	return i
}

// addTraits adds missing standard traits.
func (s *Store) addTraits(ctx context.Context, tx *sqldb.Tx) error {
	known, err := readTableNames(ctx, tx, "traits")
	if err != nil {
		return err
	}
	var rows [][]any
	for _, name := range resource.StandardTraits() {
		if !known[string(name)] {
			rows = append(rows, []any{s.now(), string(name)})
		}
	}
	return retryDuplicate(insert(ctx, tx, "traits", "created_at, name", rows))
}

// readTableNames reads the name column of a table.
func readTableNames(ctx context.Context, tx *sqldb.Tx, table string) (map[string]bool, error) {
	all := map[string]bool{}
	err := queryEach(ctx, tx, "SELECT name FROM "+table, nil, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		all[name] = true
		return err
	})
	return all, err
}

// retryDuplicate retries the transaction if another one has inserted the same row first.
func retryDuplicate(err error) error {
	if sqldb.IsDuplicate(err) {
		return sqldb.Retry(err)
	}
	return err
}

// addConsumers adds a consumer, of the incomplete project and user, to allocations of releases without consumers.
func (s *Store) addConsumers(ctx context.Context, tx *sqldb.Tx) error {
	var missing []string
	err := queryEach(ctx, tx,
		"SELECT DISTINCT a.consumer_id FROM allocations a LEFT JOIN consumers c ON c.uuid = a.consumer_id "+
			"WHERE c.id IS NULL", nil, func(rows *sql.Rows) error {
			var consumer string
			err := rows.Scan(&consumer)
			missing = append(missing, consumer)
			return err
		})
	if err != nil || len(missing) == 0 {
		return err
	}
	project, err := s.ensure(ctx, tx, projectTable, s.IncompleteProject)
	if err != nil {
		return err
	}
	user, err := s.ensure(ctx, tx, userTable, s.IncompleteUser)
	if err != nil {
		return err
	}
	var rows [][]any
	for _, consumer := range missing {
		rows = append(rows, []any{s.now(), consumer, project, user, 0})
	}
	return retryDuplicate(insert(ctx, tx, "consumers", "created_at, uuid, project_id, user_id, generation", rows))
}
