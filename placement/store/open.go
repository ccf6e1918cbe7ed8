package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/sqldb"
)

// Open checks the schema of a database and returns its Store. An empty database is accepted and waits for Sync. An
// unknown revision is refused with the fault Unavailable, and nothing is written. If another process is creating the
// tables, Open waits until they are complete.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) {
	s := &Store{
		Now:               time.Now,
		IncompleteProject: incompleteOwner,
		IncompleteUser:    incompleteOwner,
		ClaimAttempts:     claimAttempts,
		db:                db,
		states:            newTreeStates(uuid.NewString()),
	}
	s.writes = sqldb.NewWriteCheck(s.touch)
	s.batches = newBatchQueue(s)
	err := whileCreated(ctx, func() error {
		return s.read(ctx, "Open", func(tx *sqldb.Tx) error {
			_, err := checkRevision(ctx, tx)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
