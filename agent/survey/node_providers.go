package survey

import (
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
)

// nodeProviders returns the providers of the NUMA nodes that give CPUs to guests: each has what guests with NUMA cells
// use of the node. Without InPlacement, or on a host without such nodes, there are none, and the root has all.
func (f Facts) nodeProviders() (list []provider.Provider) {
	if !f.NUMA.InPlacement {
		return nil
	}
	for _, cell := range f.NUMA.Cells {
		inventories, name := cell.Inventories(f.NUMA.Limits), numa.ProviderName(f.Host, cell.ID)
		if len(inventories) == 0 {
			continue
		}
		list = append(list, provider.Provider{ID: f.id(name), Name: name, Parent: f.Root, Root: f.Root,
			Inventories: inventories, Traits: union(nil, numa.NodeTrait, OwnerNova)})
	}
	return list
}
