package resources

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/resource"
)

// inventoryDoc is one inventory with the generation of its provider.
type inventoryDoc struct {
	api.InventoryDoc
	Generation int `json:"resource_provider_generation"`
}

func sendInventories(c *request.Call, generation int, all map[resource.Class]resource.Inventory) error {
	out := api.InventoriesDoc{Generation: generation, Inventories: make(map[resource.Class]api.InventoryDoc, len(all))}
	for class, inv := range all {
		out.Inventories[class] = api.NewInventoryDoc(inv)
	}
	return c.SendJSON(http.StatusOK, out)
}

func listInventories(c *request.Call) error {
	all, err := c.Service.Store.Inventories(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	var at time.Time
	for _, t := range all.Modified {
		if t.After(at) {
			at = t
		}
	}
	c.SetModified(at)
	if len(all.Classes) == 0 {
		c.W.Header().Del("Last-Modified") // as in the original
	}
	return sendInventories(c, all.Generation, all.Classes)
}

func showInventory(c *request.Call) error {
	all, err := c.Service.Store.Inventories(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	class := resource.Class(c.R.PathValue("class"))
	inv, ok := all.Classes[class]
	if !ok {
		return fault.New(fault.NotFound, "No inventory of class %s for %s", class, c.Provider())
	}
	c.SetModified(all.Modified[class])
	return c.SendJSON(http.StatusOK, inventoryDoc{api.NewInventoryDoc(inv), all.Generation})
}

// checkCapacity returns fault.Invalid for an inventory that reserves more than its total; before microversion 1.26 also
// for one that reserves all of it.
func checkCapacity(c *request.Call, class resource.Class, inv resource.Inventory) error {
	left := inv.Capacity()
	if left < 0 || left == 0 && c.Microversion < request.SinceFullReserve {
		return fault.New(fault.Invalid, "Invalid inventory for '%s' on resource provider '%s': "+
			"reserved is %d of a total of %d, at an allocation ratio of %g",
			class, c.Provider(), inv.Reserved, inv.Total, inv.AllocationRatio)
	}
	return nil
}

func createInventory(c *request.Call) error {
	var in struct {
		api.InventoryDoc
		Class resource.Class `json:"resource_class"`
	}
	if err := readExisting(c, api.BodyNewInventory, &in); err != nil {
		return err
	}
	inv := in.Inventory()
	if err := checkCapacity(c, in.Class, inv); err != nil {
		return missingOr(c, err)
	}
	change, err := c.Service.Store.AddInventory(c.Context(), c.Provider(), in.Class, inv)
	if err != nil {
		return err
	}
	refresh(c, change)
	c.SetLocation(providerPath(c.Provider()) + "/inventories/" + string(in.Class))
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusCreated, inventoryDoc{api.NewInventoryDoc(inv), change.Generation})
}

func replaceInventories(c *request.Call) error {
	var in api.InventoriesDoc
	if err := readExisting(c, api.BodyInventories, &in); err != nil {
		return err
	}
	all := make(map[resource.Class]resource.Inventory, len(in.Inventories))
	for class, d := range in.Inventories {
		all[class] = d.Inventory()
	}
	if err := checkInventories(c, in.Generation, all); err != nil {
		return err
	}
	change, err := c.Service.Store.ReplaceInventories(c.Context(), c.Provider(), in.Generation, all)
	if err != nil {
		return err
	}
	patchInventories(c, change, in.Generation, all)
	c.SetModified(time.Time{})
	if len(all) == 0 {
		c.W.Header().Del("Last-Modified")
	}
	return sendInventories(c, change.Generation, all)
}

// checkInventories checks the capacity of inventories. If one is not valid, but the provider does not exist or has
// another generation, it returns that error instead, as the original does.
func checkInventories(c *request.Call, generation int, all map[resource.Class]resource.Inventory) error {
	for class, inv := range all {
		wrong := checkCapacity(c, class, inv)
		if wrong == nil {
			continue
		}
		p, err := c.Service.Store.Provider(c.Context(), c.Provider())
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

func updateInventory(c *request.Call) error {
	var in inventoryDoc
	if err := readExisting(c, api.BodyInventory, &in); err != nil {
		return err
	}
	class, inv := resource.Class(c.R.PathValue("class")), in.Inventory()
	if err := checkInventories(c, in.Generation, map[resource.Class]resource.Inventory{class: inv}); err != nil {
		return err
	}
	change, err := c.Service.Store.UpdateInventory(c.Context(), c.Provider(), in.Generation, class, inv)
	if err != nil {
		return err
	}
	refresh(c, change)
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, inventoryDoc{api.NewInventoryDoc(inv), change.Generation})
}

func deleteInventory(c *request.Call) error {
	change, err := c.Service.Store.DeleteInventory(c.Context(), c.Provider(), resource.Class(c.R.PathValue("class")))
	if err != nil {
		return err
	}
	refresh(c, change)
	return c.WriteStatus(http.StatusNoContent)
}

func deleteInventories(c *request.Call) error {
	change, err := c.Service.Store.DeleteInventories(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	refresh(c, change)
	return c.WriteStatus(http.StatusNoContent)
}
