package server

import (
	"maps"
	"net/http"
	"slices"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// reshape handles POST /reshaper: it moves inventories and their allocations between providers in one transaction.
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
	change, err := c.server.store.Reshape(c.Context(), inventories, claims)
	c.server.metrics.Claims(len(claims), err)
	if err != nil {
		c.refreshRefused(err, claims, slices.Collect(maps.Keys(inventories)))
		return c.firstConflict(inventories, err)
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}

// firstConflict returns the error of a refused reshape. As in the original, it is that of the first provider in the
// body that does not exist or has another generation; without such a provider, it is found.
func (c *call) firstConflict(inventories map[provider.ID]store.NewInventories, found error) error {
	if !fault.Is(found, fault.Invalid) && !fault.Is(found, fault.Conflict) && !fault.Is(found, fault.NoCapacity) {
		return found
	}
	for _, id := range api.Names(c.body, "inventories") {
		want, named := inventories[provider.ID(id)]
		p, err := c.server.store.Provider(c.Context(), provider.ID(id))
		switch {
		case !named || err != nil && !fault.Is(err, fault.NotFound):
			return found
		case err != nil:
			return fault.New(fault.Invalid, "no resource provider %s, which inventories names", id).
				WithCode(api.CodeProviderNotFound)
		case p.Generation != want.Generation:
			return fault.New(fault.Conflict,
				"resource provider generation conflict: that of %s is %d, and %d was given", id, p.Generation, want.Generation).
				WithCode(api.CodeConcurrentUpdate)
		}
	}
	return found
}
