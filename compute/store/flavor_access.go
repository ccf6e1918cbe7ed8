package store

import (
	"context"
	"database/sql"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// FlavorAccess lists the projects of the access list of a flavor, sorted; none for a flavor that does not exist.
func (s *Store) FlavorAccess(ctx context.Context, flavor string) ([]string, error) {
	var projects []string
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		projects, err = sqldb.QueryList(ctx, tx,
			`SELECT project FROM compute_flavor_access WHERE flavor_id = ? ORDER BY project`, []any{flavor},
			func(rows *sql.Rows) (project string, err error) {
				err = rows.Scan(&project)
				return project, err
			})
		return err
	})
	return projects, wrap(err)
}

// AddFlavorAccess adds a project to the access list of a flavor. It returns fault.NotFound for a flavor that does not
// exist, and fault.Conflict if the list has the project.
func (s *Store) AddFlavorAccess(ctx context.Context, flavor, project string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		// The row of the flavor is written so that a concurrent transaction cannot delete it.
		done, err := tx.Exec(ctx, `UPDATE compute_flavors SET name = name WHERE id = ?`, flavor)
		if err := sqldb.RequireRow(done, err, unknownFlavor(flavor)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO compute_flavor_access (flavor_id, project) VALUES (?, ?)`, flavor, project)
		if sqldb.IsDuplicate(err) {
			return fault.New(fault.Conflict, "Flavor access already exists for flavor %s and project %s combination.", flavor,
				project)
		}
		return err
	}))
}

// RemoveFlavorAccess removes a project from the access list of a flavor, or returns fault.NotFound.
func (s *Store) RemoveFlavorAccess(ctx context.Context, flavor, project string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		done, err := tx.Exec(ctx, `DELETE FROM compute_flavor_access WHERE flavor_id = ? AND project = ?`, flavor, project)
		return sqldb.RequireRow(done, err, fault.New(fault.NotFound,
			"Flavor access not found for %s / %s combination.", flavor, project))
	}))
}
