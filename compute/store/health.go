package store

import (
	"context"
	"time"

	"github.com/openberth/berth/sqldb"
)

// Available returns nil, or an error of kind Unavailable when the database's file was deleted or replaced and nothing
// can succeed any more.
func (s *Store) Available() error { return s.db.db.Available() }

// CheckWrites returns nil when the database takes writes of this process. Otherwise the text of the fault Unavailable
// completes "the database takes no writes:". It takes patience at most.
func (s *Store) CheckWrites(patience time.Duration) error { return s.writes.Check(patience) }

// touch is the write that CheckWrites tries.
func (s *Store) touch(ctx context.Context) error {
	return wrap("touch", s.db.Write(ctx, func(tx *sqldb.Tx) error { return tx.Touch(ctx, "compute_cloud", "id") }))
}
