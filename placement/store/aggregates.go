package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Aggregates are the aggregates of one provider, sorted, at one generation.
type Aggregates struct {
	Generation int
	Aggregates []resource.AggregateID
}

// Aggregates reads the aggregates of a provider. It returns NotFound if there is no such provider.
func (s *Store) Aggregates(ctx context.Context, id provider.ID) (all Aggregates, err error) {
	err = s.read(ctx, "Aggregates", func(tx *sqldb.Tx) error {
		p, err := findProvider(ctx, tx, id)
		if err != nil {
			return err
		}
		all = Aggregates{Generation: p.Generation, Aggregates: []resource.AggregateID{}}
		have, err := aggregatesOf(ctx, tx, p)
		for aggregate := range have {
			all.Aggregates = append(all.Aggregates, aggregate)
		}
		slices.Sort(all.Aggregates)
		return err
	})
	return all, err
}

func aggregatesOf(ctx context.Context, tx *sqldb.Tx, p providerRow) (map[resource.AggregateID]int64, error) {
	return aggregateNumbers(ctx, tx, "SELECT a.id, a.uuid FROM resource_provider_aggregates m "+
		"JOIN placement_aggregates a ON a.id = m.aggregate_id WHERE m.resource_provider_id IN (%)", []int64{p.id})
}

// ReplaceAggregates replaces the aggregate memberships of a provider. If generation is not nil (microversion 1.19),
// it is compared and raised, even if nothing changes. Faults: NotFound; Conflict placement.concurrent_update: another
// generation.
func (s *Store) ReplaceAggregates(ctx context.Context, id provider.ID, generation *int,
	all []resource.AggregateID) (Change, error) {
	m, err := untilKnown(ctx, s.db, func() (m providerChange, err error) {
		err = s.write(ctx, "ReplaceAggregates", func(tx *sqldb.Tx) error {
			s := s.withFixedClock()
			if err := lockProviders(ctx, tx, id); err != nil {
				return err
			}
			p, err := findProvider(ctx, tx, id)
			if err != nil {
				return err
			}
			if generation != nil {
				if err := p.expect(*generation); err != nil {
					return err
				}
			}
			had, inserted, err := s.setAggregates(ctx, tx, p, all)
			if err != nil {
				return err
			}
			m = providerChange{at: s.now(), compare: compareAggregates(p.id, all, inserted, s.now())}
			if generation == nil {
				m.raisedProvider, m.change = p.raisedBy(0), Change{Roots: roots(p), Generation: p.Generation}
				m.compareBefore = compareAggregates(p.id, had, nil, s.now())
				return nil
			}
			m.raisedProvider = p.raisedBy(1)
			m.change, err = s.raised(ctx, tx, p)
			return err
		})
		return m, err
	}, s.findChange)
	return m.change, err
}

// setAggregates replaces the memberships of a provider. It returns the memberships before, and those that were added.
func (s *Store) setAggregates(ctx context.Context, tx *sqldb.Tx, p providerRow,
	all []resource.AggregateID) (had, added []resource.AggregateID, err error) {
	have, err := aggregatesOf(ctx, tx, p)
	if err != nil {
		return nil, nil, err
	}
	had = slices.Collect(maps.Keys(have))
	for _, aggregate := range all {
		if _, ok := have[aggregate]; !ok && !slices.Contains(added, aggregate) {
			added = append(added, aggregate)
		}
	}
	var less []int64
	member := map[int64]bool{} // by number: MariaDB may have one aggregate for two spellings of a UUID
	for aggregate, number := range have {
		if member[number] = slices.Contains(all, aggregate); !member[number] {
			less = append(less, number)
		}
	}
	for part := range sqldb.Chunks(less) {
		if _, err := tx.Exec(ctx, "DELETE FROM resource_provider_aggregates WHERE resource_provider_id = ? AND "+
			"aggregate_id IN ("+sqldb.Placeholders(len(part))+")",
			append([]any{p.id}, sqldb.ToAny(part)...)...); err != nil {
			return nil, nil, err
		}
	}
	numbers, err := s.ensureAggregates(ctx, tx, added)
	if err != nil {
		return nil, nil, err
	}
	var rows [][]any
	for _, aggregate := range added {
		if number := numbers[aggregate]; !member[number] {
			member[number] = true
			rows = append(rows, []any{s.now(), p.id, number})
		}
	}
	return had, added, retryDuplicate(insert(ctx, tx, "resource_provider_aggregates",
		"created_at, resource_provider_id, aggregate_id", rows))
}

// compareAggregates compares a provider's memberships with the result of a write at the time at.
func compareAggregates(row int64, want, inserted []resource.AggregateID, at time.Time) comparison {
	return func(ctx context.Context, tx *sqldb.Tx) (same, ours bool, err error) {
		now := map[resource.AggregateID]sql.NullTime{}
		err = sqldb.QueryEach(ctx, tx, "SELECT a.uuid, m.created_at FROM resource_provider_aggregates m "+
			"JOIN placement_aggregates a ON a.id = m.aggregate_id WHERE m.resource_provider_id = ?",
			[]any{row}, func(rows *sql.Rows) error {
				var aggregate resource.AggregateID
				var created sql.NullTime
				err := rows.Scan(&aggregate, &created)
				now[aggregate] = created
				return err
			})
		same, ours = compareRows(tx, now, sortedSet(want), inserted, at, false)
		return same, ours, err
	}
}

// ensureAggregates returns the ids of aggregates and inserts those that are missing. Aggregates are never deleted.
func (s *Store) ensureAggregates(ctx context.Context, tx *sqldb.Tx,
	list []resource.AggregateID) (map[resource.AggregateID]int64, error) {
	found, err := aggregateNumbers(ctx, tx, "SELECT id, uuid FROM placement_aggregates WHERE uuid IN (%)", list)
	if err != nil {
		return nil, err
	}
	for _, aggregate := range list {
		// MariaDB may have the UUID in other letters that it treats as equal; then ensure finds it.
		if _, ok := found[aggregate]; !ok && err == nil {
			found[aggregate], err = s.ensure(ctx, tx, aggregateTable, string(aggregate))
		}
	}
	return found, err
}
