package store

import (
	"context"
	"time"

	"github.com/openberth/berth/sqldb"
)

// Available returns nil, or fault.Unavailable if the database file was deleted or replaced, so that no call can
// succeed.
func (s *Store) Available() error { return s.db.db.Available() }

// CheckWrites returns nil if the database accepts writes of this process, otherwise fault.Unavailable, whose text
// completes "the database takes no writes:". It returns after at most patience.
func (s *Store) CheckWrites(patience time.Duration) error { return s.writes.Check(patience) }

// touch is the write that CheckWrites attempts.
func (s *Store) touch(ctx context.Context) error {
	return wrap("touch", s.db.Write(ctx, func(tx *sqldb.Tx) error { return tx.Touch(ctx, "compute_cloud", "id") }))
}
