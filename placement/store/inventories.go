package store

import (
	"context"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Inventories is what one provider has, at one generation.
type Inventories struct {
	Generation int
	Classes    map[resource.Class]resource.Inventory
	Modified   map[resource.Class]time.Time // updated_at, or created_at when it never was
}

// Inventories reads what a provider has; NotFound.
func (s *Store) Inventories(ctx context.Context, id provider.ID) (Inventories, error) {
	return Inventories{}, s.pending("Inventories")
}

// ReplaceInventories makes the provider have exactly these, and raises its generation, also when nothing changes.
// An inventory may become smaller than its usage. The caller has judged the numbers (reserved against total).
// NotFound; Invalid: an unknown class; Conflict placement.concurrent_update: another generation;
// Conflict placement.inventory.inuse: a class that would go has allocations.
func (s *Store) ReplaceInventories(ctx context.Context, id provider.ID, generation int, all map[resource.Class]resource.Inventory) (Change, error) {
	return Change{}, s.pending("ReplaceInventories")
}

// AddInventory gives the provider one class more and raises its generation, whatever it is.
// NotFound; Invalid: an unknown class; Conflict placement.concurrent_update: it has the class already.
func (s *Store) AddInventory(ctx context.Context, id provider.ID, class resource.Class, inv resource.Inventory) (Change, error) {
	return Change{}, s.pending("AddInventory")
}

// UpdateInventory changes one class and raises the generation. NotFound: no such provider or class;
// Invalid: the provider has none of this class; Conflict placement.concurrent_update: another generation.
func (s *Store) UpdateInventory(ctx context.Context, id provider.ID, generation int, class resource.Class, inv resource.Inventory) (Change, error) {
	return Change{}, s.pending("UpdateInventory")
}

// DeleteInventory takes one class away and raises the generation, whatever it is. NotFound: no such provider, class or
// inventory; Conflict placement.concurrent_update (the original's code here, not inventory.inuse): it has allocations.
func (s *Store) DeleteInventory(ctx context.Context, id provider.ID, class resource.Class) (Change, error) {
	return Change{}, s.pending("DeleteInventory")
}

// DeleteInventories takes all classes away and raises the generation, whatever it is.
// NotFound; Conflict placement.inventory.inuse: at least one has allocations.
func (s *Store) DeleteInventories(ctx context.Context, id provider.ID) (Change, error) {
	return Change{}, s.pending("DeleteInventories")
}
