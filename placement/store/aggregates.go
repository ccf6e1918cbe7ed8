package store

import (
	"context"
	"database/sql"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Aggregates is the aggregates of one provider, sorted, at one generation.
type Aggregates struct {
	Generation int
	Aggregates []resource.AggregateID
}

// Aggregates reads the aggregates of a provider; NotFound.
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

func aggregateNumbers[T any](ctx context.Context, tx *sqldb.Tx, query string, list []T) (map[resource.AggregateID]int64, error) {
	found := map[resource.AggregateID]int64{}
	err := eachOf(ctx, tx, query, list, func(rows *sql.Rows) error {
		var id int64
		var aggregate resource.AggregateID
		err := rows.Scan(&id, &aggregate)
		found[aggregate] = id
		return err
	})
	return found, err
}

// ReplaceAggregates makes the provider a member of exactly these. With a generation (microversion 1.19) that one is compared
// and raised, also when nothing changes; nil neither compares nor raises.
// NotFound; Conflict placement.concurrent_update: another generation.
func (s *Store) ReplaceAggregates(ctx context.Context, id provider.ID, generation *int, all []resource.AggregateID) (change Change, err error) {
	err = s.write(ctx, "ReplaceAggregates", func(tx *sqldb.Tx) error {
		if err := hold(ctx, tx, id); err != nil {
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
		if err := s.setAggregates(ctx, tx, p, all); err != nil {
			return err
		}
		change = Change{Roots: roots(p), Generation: p.Generation}
		if generation != nil {
			change, err = s.raised(ctx, tx, p)
		}
		return err
	})
	return change, err
}

func (s *Store) setAggregates(ctx context.Context, tx *sqldb.Tx, p providerRow, all []resource.AggregateID) error {
	have, err := aggregatesOf(ctx, tx, p)
	if err != nil {
		return err
	}
	var more []resource.AggregateID
	for _, aggregate := range all {
		if _, ok := have[aggregate]; !ok && !slices.Contains(more, aggregate) {
			more = append(more, aggregate)
		}
	}
	var less []int64
	for aggregate, number := range have {
		if !slices.Contains(all, aggregate) {
			less = append(less, number)
		}
	}
	for part := range chunks(less) {
		if _, err := tx.Exec(ctx, "DELETE FROM resource_provider_aggregates WHERE resource_provider_id = ? AND aggregate_id IN ("+marks(len(part))+")",
			append([]any{p.id}, anys(part)...)...); err != nil {
			return err
		}
	}
	numbers, err := s.ensureAggregates(ctx, tx, more)
	if err != nil {
		return err
	}
	var rows [][]any
	for _, aggregate := range more {
		rows = append(rows, []any{s.now(), p.id, numbers[aggregate]})
	}
	return again(insert(ctx, tx, "resource_provider_aggregates", "created_at, resource_provider_id, aggregate_id", rows))
}

// ensureAggregates finds the numbers of aggregates and gives one to those that nobody named before. They are never removed.
func (s *Store) ensureAggregates(ctx context.Context, tx *sqldb.Tx, list []resource.AggregateID) (map[resource.AggregateID]int64, error) {
	found, err := aggregateNumbers(ctx, tx, "SELECT id, uuid FROM placement_aggregates WHERE uuid IN (%)", list)
	if err != nil {
		return nil, err
	}
	for _, aggregate := range list {
		if _, ok := found[aggregate]; ok {
			continue
		}
		id, err := tx.Insert(ctx, "INSERT INTO placement_aggregates (created_at, uuid) VALUES (?, ?)", s.now(), aggregate)
		if err != nil {
			return nil, again(err)
		}
		found[aggregate] = id
	}
	return found, nil
}
