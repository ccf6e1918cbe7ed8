package placement

import (
	"context"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Inventories reads the inventories of a provider and its generation; fault.NotFound if the provider does not exist.
func (c *Client) Inventories(ctx context.Context, id provider.ID) (InventorySet, error) {
	var doc InventoriesDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(id, "/inventories"), nil, &doc); err != nil {
		return InventorySet{}, fault.Wrap("", "placement.Inventories", err)
	}
	inventories := make(map[resource.Class]resource.Inventory, len(doc.Inventories))
	for class, inv := range doc.Inventories {
		inventories[class] = inv.Inventory()
	}
	return InventorySet{Generation: doc.Generation, Inventories: inventories}, nil
}
