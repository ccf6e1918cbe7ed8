package store

import (
	"context"
	"time"

	"github.com/openberth/berth/sqldb"
)

// Available returns nil, or an error of kind Unavailable if the database's file was deleted or replaced, so that no
// transaction can succeed.
func (s *Store) Available() error { return s.db.Available() }

// CheckWrites returns nil if the database accepts writes. Otherwise the text of the fault Unavailable completes "the
// database takes no writes:". It waits at most for patience. It adds no row and no table, because the schema is
// OpenStack's.
func (s *Store) CheckWrites(patience time.Duration) error { return s.writes.Check(patience) }

// touch is the write that CheckWrites runs.
func (s *Store) touch(ctx context.Context) error {
	return s.write(ctx, "CheckWrites", func(tx *sqldb.Tx) error {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		return tx.Touch(ctx, "alembic_version", "version_num")
	})
}
