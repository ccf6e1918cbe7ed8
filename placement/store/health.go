package store

import (
	"context"
	"time"

	"github.com/openberth/berth/sqldb"
)

// Available returns nil, or an error of kind Unavailable when the database's file was deleted or replaced and nothing
// can succeed any more.
func (s *Store) Available() error { return s.db.Available() }

// CheckWrites returns nil when the database takes writes. Otherwise the text of the fault Unavailable completes "the
// database takes no writes:". It takes patience at most. No row and no table is added: the schema is OpenStack's.
func (s *Store) CheckWrites(patience time.Duration) error { return s.writes.Check(patience) }

// touch is the write that CheckWrites tries.
func (s *Store) touch(ctx context.Context) error {
	return s.write(ctx, "CheckWrites", func(tx *sqldb.Tx) error {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		return tx.Touch(ctx, "alembic_version", "version_num")
	})
}
