package resources

import (
	"maps"
	"net/http"
	"slices"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/resource"
)

// showTree handles GET /berth/v1/trees/{uuid}: the providers of the tree of any of its providers, parents first, with
// inventories, traits, aggregates and what consumers hold.
func showTree(c *request.Call) error {
	snapshot, err := c.Service.Index.CatchUp(c.Context())
	if err != nil {
		return err
	}
	root := snapshot.RootOf(c.Provider())
	rows := snapshot.Tree(root)
	if len(rows) == 0 {
		return fault.New(fault.NotFound, "No resource provider with uuid %s found", c.Provider())
	}
	held, err := c.Service.Store.TreeAllocations(c.Context(), root, true)
	if err != nil {
		return err
	}
	answer := api.Tree{Root: root, Providers: make([]api.TreeProvider, len(rows))}
	for i, r := range rows {
		p := api.TreeProvider{ID: r.ID, Name: r.Name, Parent: r.Parent, Generation: r.Generation,
			Inventories: map[resource.Class]api.InventoryDoc{}, Traits: append([]resource.Trait{}, r.Traits...),
			Aggregates: append([]resource.AggregateID{}, r.Aggregates...), Usages: resource.Amounts{},
			Allocations: map[resource.ConsumerID]resource.Amounts{}}
		for class, inventory := range r.Inventories {
			p.Inventories[class], p.Usages[class] = api.NewInventoryDoc(inventory), 0
		}
		maps.Copy(p.Allocations, held[r.ID])
		for _, amounts := range p.Allocations {
			for class, n := range amounts {
				p.Usages[class] += n
			}
		}
		slices.Sort(p.Traits)
		slices.Sort(p.Aggregates)
		answer.Providers[i] = p
	}
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, answer)
}
