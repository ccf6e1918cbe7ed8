package store

import (
	"context"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// NewInventories is what a provider shall have, given the generation that the caller saw.
type NewInventories struct {
	Generation int
	Classes    map[resource.Class]resource.Inventory
}

// Reshape replaces inventories of providers and allocations of consumers together, or changes nothing: POST /reshaper.
//
// Claims are judged against the new inventories and those that go; these may go when no allocation is left on them.
// Invalid placement.resource_provider.not_found: no such provider among the inventories; Invalid: no such provider or class
// in claims; Conflict placement.concurrent_update: another generation of a provider or consumer; Conflict
// placement.inventory.inuse: a class that would go has allocations; Conflict without a code: a claim does not fit.
func (s *Store) Reshape(ctx context.Context, inventories map[provider.ID]NewInventories, claims []Claim) (Change, error) {
	return Change{}, s.pending("Reshape")
}
