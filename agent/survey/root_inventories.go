package survey

import (
	"slices"

	"github.com/openberth/berth/resource"
)

func (f Facts) rootInventories() map[resource.Class]RootInventory {
	return map[resource.Class]RootInventory{"VCPU": f.VCPU, "PCPU": f.PCPU, "MEMORY_MB": f.MemoryMB, "DISK_GB": f.DiskGB}
}

// inventories returns the inventories of the root.
func (f Facts) inventories() map[resource.Class]resource.Inventory {
	out := map[resource.Class]resource.Inventory{}
	for class, share := range f.rootInventories() {
		if share.Total <= 0 {
			continue
		}
		inv := resource.Whole(share.Total)
		inv.Reserved = share.Reserved
		if share.Ratio != 0 {
			inv.AllocationRatio = share.Ratio
		}
		out[class] = inv
	}
	return out
}

// Ratios returns the classes of the root with a configured allocation_ratio, sorted.
func Ratios(f Facts) []resource.Class {
	var list []resource.Class
	for class, share := range f.rootInventories() {
		if share.Total > 0 && share.Ratio != 0 {
			list = append(list, class)
		}
	}
	slices.Sort(list)
	return list
}

// ReservedClasses returns the classes of the root with a configured reserved amount, sorted.
func ReservedClasses(f Facts) []resource.Class {
	var list []resource.Class
	for class, share := range f.rootInventories() {
		if share.Total > 0 && share.ReservedSet {
			list = append(list, class)
		}
	}
	slices.Sort(list)
	return list
}
