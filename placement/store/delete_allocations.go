package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
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
		all, err := readHeld(ctx, tx, []resource.ConsumerID{consumer})
		if err != nil {
			return err
		}
		asNamed(all, []resource.ConsumerID{consumer})
		held := all[consumer]
		if held == nil {
			return fault.New(fault.NotFound, "the consumer %s has no allocations", consumer)
		}
		if _, err := tx.Exec(ctx, "DELETE FROM allocations WHERE consumer_id = ?", consumer); err != nil {
			return err
		}
		var deleted []int64             // not known: MySQL has no RETURNING
		if tx.Dialect == sqldb.SQLite { // one transaction at a time, which deletes what it has read
			deleted = slices.Collect(maps.Keys(held.rows))
		}
		done = held.removal(deleted)
		_, err = tx.Exec(ctx,
			"DELETE FROM consumers WHERE uuid = ? AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.consumer_id "+
				"= consumers.uuid)", consumer)
		return err
	})
	return done, err
}

// heldAllocations are the allocations of a consumer.
type heldAllocations struct {
	row       int64 // of the consumer; 0 if it has none
	providers []providerRow
	rows      map[int64]heldRow // by the id of the allocation
}

// heldRow is one allocation.
type heldRow struct {
	on    provider.ID
	class resource.Class
	used  int
}

// readHeld reads the allocations of consumers. A consumer without allocations is left out.
func readHeld(ctx context.Context, tx *sqldb.Tx,
	consumers []resource.ConsumerID) (map[resource.ConsumerID]*heldAllocations, error) {
	all := map[resource.ConsumerID]*heldAllocations{}
	err := sqldb.QueryIn(ctx, tx,
		"SELECT a.consumer_id, COALESCE(c.id, 0), p.id, p.uuid, p.generation, r.uuid, a.id, COALESCE(k.name, ''), a.used "+
			"FROM allocations a JOIN resource_providers p ON p.id = a.resource_provider_id "+
			"JOIN resource_providers r ON r.id = p.root_provider_id "+
			"LEFT JOIN resource_classes k ON k.id = a.resource_class_id "+
			"LEFT JOIN consumers c ON c.uuid = a.consumer_id WHERE a.consumer_id IN (%)", consumers,
		func(rows *sql.Rows) error {
			var consumer resource.ConsumerID
			var row, id int64
			var p providerRow
			var one heldRow
			err := rows.Scan(&consumer, &row, &p.id, &p.ID, &p.Generation, &p.Root, &id, &one.class, &one.used)
			held := all[consumer]
			if held == nil {
				held = &heldAllocations{row: row, rows: map[int64]heldRow{}}
				all[consumer] = held
			}
			if !slices.ContainsFunc(held.providers, func(other providerRow) bool { return other.id == p.id }) {
				held.providers = append(held.providers, p)
			}
			one.on = p.ID
			held.rows[id] = one
			return err
		})
	return all, err
}

// removal returns the effect of a transaction that has deleted these allocations of the consumer. It is known exactly
// if they are those that were read before: another transaction may have replaced them in between.
func (h *heldAllocations) removal(deleted []int64) removal {
	done := removal{row: h.row, change: Change{Roots: roots(h.providers...), Used: ids(h.providers...)}}
	if len(deleted) != len(h.rows) {
		return done
	}
	added := map[provider.ID]UsageChange{}
	for _, id := range deleted {
		one, ok := h.rows[id]
		if !ok || one.class == "" {
			return done
		}
		if added[one.on].Amounts == nil {
			added[one.on] = UsageChange{Amounts: resource.Amounts{}}
		}
		added[one.on].Amounts[one.class] -= one.used
	}
	done.change.Added = added
	return done
}

// deleteAllocationRows deletes the allocations of consumers and returns the ids of the rows that it has deleted.
func deleteAllocationRows(ctx context.Context, tx *sqldb.Tx,
	consumers []resource.ConsumerID) (map[resource.ConsumerID][]int64, error) {
	deleted := map[resource.ConsumerID][]int64{}
	err := sqldb.QueryIn(ctx, tx, "DELETE FROM allocations WHERE consumer_id IN (%) RETURNING consumer_id, id", consumers,
		func(rows *sql.Rows) error {
			var consumer resource.ConsumerID
			var id int64
			err := rows.Scan(&consumer, &id)
			deleted[consumer] = append(deleted[consumer], id)
			return err
		})
	return deleted, err
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
