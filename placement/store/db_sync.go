package store

import (
	"context"
	"database/sql"

	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Create creates the schema on an empty database: the same as the original's `placement-manage db sync`. created is
// false if the schema exists already. If several processes call it at the same time, on one database or on the nodes
// of a cluster, one of them creates the schema. It returns the same faults as Open, and the errors of the database.
func (s *Store) Create(ctx context.Context) (created bool, err error) {
	err = whileCreated(ctx, func() error {
		return s.write(ctx, "Create", func(tx *sqldb.Tx) error {
			empty, err := checkRevision(ctx, tx)
			if created = err == nil && empty; created {
				err = createTables(ctx, tx)
			}
			return err
		})
	})
	return created, err
}

// Version returns the Alembic revision of the database, or "" for an empty database.
func (s *Store) Version(ctx context.Context) (version string, err error) {
	err = s.read(ctx, "Version", func(tx *sqldb.Tx) error {
		empty, err := checkRevision(ctx, tx)
		if err != nil || empty {
			return err
		}
		return tx.QueryRow(ctx, "SELECT version_num FROM alembic_version").Scan(&version)
	})
	return version, err
}

// Sync creates the schema on an empty database, adds missing standard resource classes and traits, and completes the
// data of older releases: it gives a root to providers and a consumer to allocations that have none. It can be
// repeated. It returns the same faults as Open, and the errors of the database.
func (s *Store) Sync(ctx context.Context) error {
	// A separate transaction, because CREATE TABLE ends the current transaction on MySQL.
	if _, err := s.Create(ctx); err != nil {
		return err
	}
	return s.write(ctx, "Sync", func(tx *sqldb.Tx) error {
		if err := s.addClasses(ctx, tx); err != nil {
			return err
		}
		if err := s.addTraits(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE resource_providers SET root_provider_id = id WHERE root_provider_id IS "+
			"NULL"); err != nil {
			return err
		}
		return s.addConsumers(ctx, tx)
	})
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
	err := sqldb.QueryEach(ctx, tx, "SELECT name FROM "+table, nil, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		all[name] = true
		return err
	})
	return all, err
}

// addConsumers adds a consumer, of the incomplete project and user, to allocations of releases without consumers.
func (s *Store) addConsumers(ctx context.Context, tx *sqldb.Tx) error {
	var missing []string
	err := sqldb.QueryEach(ctx, tx,
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
