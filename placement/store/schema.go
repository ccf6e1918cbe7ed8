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

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// The revisions of OpenStack Placement's schema that this package serves. It creates the first; the second, of later
// releases, only drops indexes that unique constraints made redundant.
const (
	revision         = "422ece571366" // consumer types; Placement 6.0 and later
	revisionNoDouble = "a082b8bb98d0"
)

const (
	creationTimeout = 30 * time.Second       // how long another process is waited for that makes the tables
	creationPoll = 100 * time.Millisecond // how often it is looked whether it has
)

// errUnfinished says that alembic_version is there without a revision: another process is making the tables, or ended in the midst of it.
var errUnfinished = errors.New("the table alembic_version is empty")

//go:embed schema.sql
var schemaSQL string

// check finds out whether the database is empty, and refuses one that is neither empty nor of a known revision.
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
			return false, fault.New(fault.Unavailable, "", "the tables of the database are being made by another process, or one ended in the midst of it (%w): "+
				"try again when it is done; if there is none, make the database anew", errUnfinished)
		case err != nil:
			return false, err
		default:
			found = "revision " + got
		}
	}
	return false, fault.New(fault.Unavailable, "", "the database has tables of OpenStack Placement at %s, Berth serves revisions %s and %s: "+
		"bring it there with `placement-manage db sync`, or give Berth an empty database", found, revision, revisionNoDouble)
}

// onceMade runs once again while another process is making the tables.
func whileCreated(ctx context.Context, once func() error) error {
	for last := time.Now().Add(creationTimeout); ; {
		err := once()
		if !errors.Is(err, errUnfinished) || time.Now().After(last) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(creationPoll):
		}
	}
}

// create makes the tables on an empty database. The first, alembic_version, is what keeps others from doing the same: on the nodes of a
// Galera cluster too, where CREATE TABLE has one order for all and locks have not. Its row says that all are there.
func createTables(ctx context.Context, tx *sqldb.Tx) error {
	for i, statement := range statements(tx.Dialect) {
		_, err := tx.Exec(ctx, statement)
		if i == 0 && (sqldb.IsExisting(err) || sqldb.IsDuplicate(err)) {
			return sqldb.Retry(err) // and find out
		}
		if err != nil {
			return fmt.Errorf("%s: %w", strings.SplitN(statement, "(", 2)[0], err)
		}
	}
	_, err := tx.Exec(ctx, "INSERT INTO alembic_version (version_num) VALUES (?)", revision)
	return err
}

// statements spells schema.sql in a dialect.
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

// addClasses adds the standard classes that are missing, each with its position as id.
func (s *Store) addClasses(ctx context.Context, tx *sqldb.Tx) error {
	known, err := readTableNames(ctx, tx, "resource_classes")
	if err != nil {
		return err
	}
	for i, name := range resource.StandardClasses() {
		if known[string(name)] {
			continue
		}
		// MySQL takes an inserted 0 for "the next number", but not an updated one.
		if _, err := tx.Exec(ctx, "INSERT INTO resource_classes (created_at, id, name) VALUES (?, ?, ?)", s.now(), nonZero(i), string(name)); err != nil {
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

// nonZero is a number for the first class until it gets its own.
func nonZero(i int) int {
	if i == 0 {
		return -1
	}
	return i
}

// addTraits adds the standard traits that are missing.
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

// known reads the names of a table.
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

// again asks for a fresh start when somebody else inserted the same row first.
func retryDuplicate(err error) error {
	if sqldb.IsDuplicate(err) {
		return sqldb.Retry(err)
	}
	return err
}

// addConsumers gives a consumer, of the incomplete project and user, to allocations of releases that knew no consumers.
func (s *Store) addConsumers(ctx context.Context, tx *sqldb.Tx) error {
	var missing []string
	err := queryEach(ctx, tx, "SELECT DISTINCT a.consumer_id FROM allocations a LEFT JOIN consumers c ON c.uuid = a.consumer_id "+
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
