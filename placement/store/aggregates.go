package store

import (
	"context"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Aggregates is the aggregates of one provider, sorted, at one generation.
type Aggregates struct {
	Generation int
	Aggregates []resource.AggregateID
}

// Aggregates reads the aggregates of a provider; NotFound.
func (s *Store) Aggregates(ctx context.Context, id provider.ID) (Aggregates, error) {
	return Aggregates{}, s.pending("Aggregates")
}

// ReplaceAggregates makes the provider a member of exactly these. With a generation (microversion 1.19) that one is compared
// and raised, also when nothing changes; nil neither compares nor raises.
// NotFound; Conflict placement.concurrent_update: another generation.
func (s *Store) ReplaceAggregates(ctx context.Context, id provider.ID, generation *int, all []resource.AggregateID) (Change, error) {
	return Change{}, s.pending("ReplaceAggregates")
}
