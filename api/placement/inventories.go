package placement

import (
	"context"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Inventories reads what one provider has, and its generation; fault.NotFound when there is no such provider.
func (c *Client) Inventories(ctx context.Context, id provider.ID) (Stock, error) {
	var doc InventoriesDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(id, "/inventories"), nil, &doc); err != nil {
		return Stock{}, fault.Wrap("", "placement.Inventories", err)
	}
	stock := Stock{Generation: doc.Generation, Inventories: make(map[resource.Class]resource.Inventory, len(doc.Inventories))}
	for class, inv := range doc.Inventories {
		stock.Inventories[class] = inv.Inventory()
	}
	return stock, nil
}
