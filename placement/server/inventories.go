package server

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// inventoryDoc is one inventory with the generation of its provider.
type inventoryDoc struct {
	api.InventoryDoc
	Generation int `json:"resource_provider_generation"`
}

func (c *call) sendInventories(generation int, all map[resource.Class]resource.Inventory) error {
	out := api.InventoriesDoc{Generation: generation, Inventories: make(map[resource.Class]api.InventoryDoc, len(all))}
	for class, inv := range all {
		out.Inventories[class] = api.NewInventoryDoc(inv)
	}
	return c.sendJSON(http.StatusOK, out)
}

func (c *call) listInventories() error {
	all, err := c.server.store.Inventories(c.Context(), c.provider())
	if err != nil {
		return err
	}
	var at time.Time
	for _, t := range all.Modified {
		if t.After(at) {
			at = t
		}
	}
	c.setModified(at)
	if len(all.Classes) == 0 {
		c.W.Header().Del("Last-Modified") // as in the original
	}
	return c.sendInventories(all.Generation, all.Classes)
}

func (c *call) showInventory() error {
	all, err := c.server.store.Inventories(c.Context(), c.provider())
	if err != nil {
		return err
	}
	class := resource.Class(c.R.PathValue("class"))
	inv, ok := all.Classes[class]
	if !ok {
		return fault.New(fault.NotFound, "No inventory of class %s for %s", class, c.provider())
	}
	c.setModified(all.Modified[class])
	return c.sendJSON(http.StatusOK, inventoryDoc{api.NewInventoryDoc(inv), all.Generation})
}

// checkCapacity returns fault.Invalid for an inventory that reserves more than its total; before microversion 1.26 also
// for one that reserves all of it.
func (c *call) checkCapacity(class resource.Class, inv resource.Inventory) error {
	left := inv.Capacity()
	if left < 0 || left == 0 && c.version < sinceFullReserve {
		return fault.New(fault.Invalid, "Invalid inventory for '%s' on resource provider '%s': "+
			"reserved is %d of a total of %d, at an allocation ratio of %g",
			class, c.provider(), inv.Reserved, inv.Total, inv.AllocationRatio)
	}
	return nil
}

func (c *call) createInventory() error {
	var in struct {
		api.InventoryDoc
		Class resource.Class `json:"resource_class"`
	}
	if err := c.readExisting(api.BodyNewInventory, &in); err != nil {
		return err
	}
	inv := in.Inventory()
	if err := c.checkCapacity(in.Class, inv); err != nil {
		return c.missingOr(err)
	}
	change, err := c.server.store.AddInventory(c.Context(), c.provider(), in.Class, inv)
	if err != nil {
		return err
	}
	c.refresh(change)
	c.setLocation(providerPath(c.provider()) + "/inventories/" + string(in.Class))
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusCreated, inventoryDoc{api.NewInventoryDoc(inv), change.Generation})
}

func (c *call) replaceInventories() error {
	var in api.InventoriesDoc
	if err := c.readExisting(api.BodyInventories, &in); err != nil {
		return err
	}
	all := make(map[resource.Class]resource.Inventory, len(in.Inventories))
	for class, d := range in.Inventories {
		all[class] = d.Inventory()
	}
	if err := c.checkInventories(in.Generation, all); err != nil {
		return err
	}
	change, err := c.server.store.ReplaceInventories(c.Context(), c.provider(), in.Generation, all)
	if err != nil {
		return err
	}
	c.patchInventories(change, in.Generation, all)
	c.setModified(time.Time{})
	if len(all) == 0 {
		c.W.Header().Del("Last-Modified")
	}
	return c.sendInventories(change.Generation, all)
}

// checkInventories checks the capacity of inventories. If one is not valid, but the provider does not exist or has
// another generation, it returns that error instead, as the original does.
func (c *call) checkInventories(generation int, all map[resource.Class]resource.Inventory) error {
	for class, inv := range all {
		wrong := c.checkCapacity(class, inv)
		if wrong == nil {
			continue
		}
		p, err := c.server.store.Provider(c.Context(), c.provider())
		if err != nil {
			return err
		}
		if p.Generation != generation {
			return fault.New(fault.Conflict,
				"resource provider generation conflict: it is %d, and %d was given", p.Generation, generation).
				WithCode(api.CodeConcurrentUpdate)
		}
		return wrong
	}
	return nil
}

func (c *call) updateInventory() error {
	var in inventoryDoc
	if err := c.readExisting(api.BodyInventory, &in); err != nil {
		return err
	}
	class, inv := resource.Class(c.R.PathValue("class")), in.Inventory()
	if err := c.checkInventories(in.Generation, map[resource.Class]resource.Inventory{class: inv}); err != nil {
		return err
	}
	change, err := c.server.store.UpdateInventory(c.Context(), c.provider(), in.Generation, class, inv)
	if err != nil {
		return err
	}
	c.refresh(change)
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, inventoryDoc{api.NewInventoryDoc(inv), change.Generation})
}

func (c *call) deleteInventory() error {
	change, err := c.server.store.DeleteInventory(c.Context(), c.provider(), resource.Class(c.R.PathValue("class")))
	if err != nil {
		return err
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}

func (c *call) deleteInventories() error {
	change, err := c.server.store.DeleteInventories(c.Context(), c.provider())
	if err != nil {
		return err
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}
