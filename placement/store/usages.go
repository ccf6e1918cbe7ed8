package store

import (
	"context"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ProviderUsages is how much of each class a provider has inventory of is taken, zeros included, at one generation.
type ProviderUsages struct {
	Generation int
	Used       resource.Amounts
}

// UsageFilter selects consumers.
type UsageFilter struct {
	Project      string
	User         string // empty: every user
	ConsumerType string // empty: every type, one Usage each; "all": every type in one Usage; "unknown": those without a type
}

// Usage is what the consumers of one type hold together.
type Usage struct {
	ConsumerType string // "all" and "unknown" included
	Consumers    int
	Used         resource.Amounts
}

// ProviderUsages adds up what is taken of a provider; NotFound.
func (s *Store) ProviderUsages(ctx context.Context, id provider.ID) (ProviderUsages, error) {
	return ProviderUsages{}, s.pending("ProviderUsages")
}

// Usages adds up what the consumers of a project hold, by consumer type; nothing when they hold nothing.
// Before microversion 1.38 ask for "all" and show only the amounts.
func (s *Store) Usages(ctx context.Context, filter UsageFilter) ([]Usage, error) {
	return nil, s.pending("Usages")
}
