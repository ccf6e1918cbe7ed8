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
	tables, err := sqldb.TableNames(ctx, tx)
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
			return false, fault.New(fault.Unavailable,
				"another process is creating the tables of the database, or was interrupted (%w): "+
					"try again later; if there is no such process, create the database again", errUnfinished)
		case err != nil:
			return false, err
		default:
			found = "revision " + got
		}
	}
	return false, fault.New(fault.Unavailable,
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
