package store

import (
	"context"
	"database/sql"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// DeleteAllocations removes a consumer with all its allocations, without checking its generation. It raises no
// generation of a provider. Faults: NotFound: the consumer has no allocations; Unavailable CodeUnknownOutcome: the
// connection was lost at COMMIT, and the database does not answer.
func (s *Store) DeleteAllocations(ctx context.Context, consumer resource.ConsumerID) (Change, error) {
	done, err := untilKnown(ctx, s.db, func() (removal, error) { return s.attemptRemoval(ctx, consumer) },
		func(ctx context.Context, done removal) (outcome, error) { return s.findRemoval(ctx, consumer, done) })
	s.states.wrote(done.change.Roots, true)
	return done.change, err
}

// removal is the effect of one transaction of DeleteAllocations.
type removal struct {
	row    int64 // of the consumer; 0 if it has none
	change Change
}

func (s *Store) deleteAllocations(ctx context.Context, consumer resource.ConsumerID) (done removal, err error) {
	err = s.write(ctx, "DeleteAllocations", func(tx *sqldb.Tx) error {
		held, row, err := providersOf(ctx, tx, consumer)
		if err != nil {
			return err
		}
		if len(held) == 0 {
			return fault.New(fault.NotFound, "the consumer %s has no allocations", consumer)
		}
		done = removal{row: row, change: Change{Roots: roots(held...), Used: ids(held...)}}
		if _, err := tx.Exec(ctx, "DELETE FROM allocations WHERE consumer_id = ?", consumer); err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			"DELETE FROM consumers WHERE uuid = ? AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.consumer_id "+
				"= consumers.uuid)", consumer)
		return err
	})
	return done, err
}

// findRemoval determines the outcome of a transaction of DeleteAllocations. It is committed if the consumer's row is
// gone, even if the consumer has a new row since: a claim made after the removal stays. It does not matter which
// client removed the row.
func (s *Store) findRemoval(ctx context.Context, consumer resource.ConsumerID,
	done removal) (became outcome, err error) {
	err = s.write(ctx, "findOut", func(tx *sqldb.Tx) error {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		for _, to := range lockValues(tx, "generation", "generation + 1", "generation - 1") {
			if _, err := tx.Exec(ctx, "UPDATE consumers SET generation = "+to+" WHERE uuid = ?", consumer); err != nil {
				return err
			}
		}
		left, row, err := providersOf(ctx, tx, consumer)
		if became = committed; row == done.row && len(left) > 0 {
			became = rolledBack
		}
		return err
	})
	return became, err
}

// providersOf reads the providers on which a consumer has allocations, and the id of the consumer's row, or 0 if
// there is no row.
func providersOf(ctx context.Context, tx *sqldb.Tx,
	consumer resource.ConsumerID) (list []providerRow, row int64, err error) {
	err = sqldb.QueryEach(ctx, tx,
		"SELECT DISTINCT COALESCE(c.id, 0), p.id, p.uuid, p.generation, r.uuid FROM allocations a "+
			"JOIN resource_providers p ON p.id = a.resource_provider_id "+
			"JOIN resource_providers r ON r.id = p.root_provider_id "+
			"LEFT JOIN consumers c ON c.uuid = a.consumer_id WHERE a.consumer_id = ?", []any{consumer},
		func(rows *sql.Rows) error {
			var p providerRow
			err := rows.Scan(&row, &p.id, &p.ID, &p.Generation, &p.Root)
			list = append(list, p)
			return err
		})
	return list, row, err
}
