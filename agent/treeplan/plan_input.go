package treeplan

import (
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Aim is the desired state of a host in Placement.
type Aim struct {
	Tree provider.Tree
	// of the root, with an allocation_ratio from the configuration; others keep Placement's
	Ratios []resource.Class
	// of the root, with a reserved amount from the configuration; for others it never decreases
	ReservedClasses []resource.Class
	// providers of Tree whose reserved amounts are those of Tree: a device was cleaned, disabled or enabled
	Returned map[provider.ID]bool
	// Owns reports whether a provider below the root is that of a device that no trait marks; nil: none is
	Owns func(p, root provider.Provider) bool
	// of these providers, those that Placement has and that must be deleted
	Orphans  map[provider.ID]bool
	Expected map[resource.ConsumerID]Expected // consumers whose guest here has devices or NUMA cells
	// whole allocations of consumers in Placement, as far as they were read: those that Lacking and Moved name
	Allocations map[resource.ConsumerID]resource.Allocation
}

// owns reports whether Owns recognises a provider of the present tree.
func (a Aim) owns(p provider.Provider, actual provider.Tree) bool {
	root, _ := actual.Root()
	return a.Owns != nil && a.Owns(p, root)
}

// Uses are the amounts that each consumer holds of each provider. They must be complete for each provider that a plan
// changes, and for those whose devices guests hold. A plan that is empty without uses is with them at most one reshape
// that adds missing allocations.
type Uses map[provider.ID]map[resource.ConsumerID]resource.Amounts

func (u Uses) holders(id provider.ID, class resource.Class) (consumers []resource.ConsumerID, used int) {
	for consumer, amounts := range u[id] {
		if amounts[class] > 0 {
			consumers = append(consumers, consumer)
			used += amounts[class]
		}
	}
	slices.Sort(consumers)
	return consumers, used
}

// all lists the consumers of a provider, in order.
func (u Uses) all(id provider.ID) []resource.ConsumerID {
	var list []resource.ConsumerID
	for consumer, amounts := range u[id] {
		for _, n := range amounts {
			if n > 0 {
				list = append(list, consumer)
				break
			}
		}
	}
	slices.Sort(list)
	return list
}

// Owned is what the agent has written to a provider.
type Owned struct {
	Classes []resource.Class // sorted
	Traits  []resource.Trait // sorted
}

// OwnedSet is what the agent has written to each provider, as far as its journal has it.
type OwnedSet map[provider.ID]Owned

// Managed is the trait of a provider for a PCI device that an agent reports.
const Managed resource.Trait = "COMPUTE_MANAGED_PCI_DEVICE"

// rootClasses are the classes that the agent owns on the root.
var rootClasses = [...]resource.Class{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}
