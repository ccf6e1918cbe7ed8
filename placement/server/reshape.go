package server

import (
	"maps"
	"net/http"
	"slices"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// reshape is POST /reshaper: inventories move between providers, and the allocations with them, or nothing does.
func (c *call) reshape() error {
	var in api.ReshapeDoc
	if err := c.read(api.BodyReshape, &in); err != nil {
		return err
	}
	inventories := make(map[provider.ID]store.NewInventories, len(in.Inventories))
	for id, d := range in.Inventories {
		all := make(map[resource.Class]resource.Inventory, len(d.Inventories))
		for class, inv := range d.Inventories {
			all[class] = inv.Inventory()
		}
		inventories[id] = store.NewInventories{Generation: d.Generation, Classes: all}
	}
	claims := c.claims(in.Allocations)
	change, err := c.server.store.Reshape(c.ctx(), inventories, claims)
	c.server.metrics.Claims(len(claims), err)
	if err != nil {
		c.refused(err, claims, slices.Collect(maps.Keys(inventories)))
		return err
	}
	c.refresh(change)
	return c.none(http.StatusNoContent)
}
