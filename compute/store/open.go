package store

import (
	"context"

	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/store/lease"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Open migrates the tables and returns the store. The caller closes the database.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) {
	if err := sqldb.Migrate(ctx, db, "compute_schema", schema, "compute_versions"); err != nil {
		return nil, fault.Wrap("", err)
	}
	s := &Store{db: lease.Database{DB: db}, servers: newServerCache(), hosts: newHostCache(), reports: newReportCache(),
		assignments: newAssignmentCache(), quotaDefaults: quota.Defaults(),
		subscribers: map[string]map[chan struct{}]bool{}}
	s.writes = sqldb.NewWriteCheck(s.touch)
	return s, wrap(s.loadCloudID(ctx))
}

// loadCloudID reads the cloud's UUID; it creates one if there is none.
func (s *Store) loadCloudID(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.InsertIgnore(ctx, `INSERT INTO compute_cloud (one, id) VALUES (1, ?)`, newUUID()); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT id FROM compute_cloud WHERE one = 1`).Scan(&s.cloud)
	})
}
