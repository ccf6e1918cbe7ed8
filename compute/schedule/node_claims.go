package schedule

import (
	"maps"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// What guests with NUMA cells use of the nodes of a host is in Placement in one of two forms: with NodesInPlacement it
// is on the provider of each node, otherwise the threads for dedicated CPUs are on the root, and nothing counts the
// rest.

// NodeProvider returns the id of the provider of a node, which agents derive from the root and the name.
func (h Host) NodeProvider(node int) provider.ID {
	return provider.IDFromName(h.Provider, numa.ProviderName(h.Name, node))
}

// NodeProviders returns the ids of the providers of all nodes of the host, whether Placement has them or not.
func (h Host) NodeProviders() (list []provider.ID) {
	for _, c := range h.Cells {
		list = append(list, h.NodeProvider(c.ID))
	}
	return list
}

// limited returns the cells of a host with no more free than Placement has left of their nodes.
func (h Host) limited(room numa.Host, left resource.Allocation) (cells []numa.Cell) {
	for _, c := range room.Cells {
		cells = append(cells, c.Limited(left[h.NodeProvider(c.ID)], room.Limits))
	}
	return cells
}

// WithoutDedicated returns a request without threads for dedicated CPUs: a claim has these of the nodes of the cells
// that are planned. A group that requests nothing else requests one of them, so that it remains.
func WithoutDedicated(ask resource.Ask) resource.Ask {
	ask.Groups = slices.Clone(ask.Groups)
	for i, g := range ask.Groups {
		if g.Resources[numa.DedicatedCPUs] == 0 {
			continue
		}
		rest := maps.Clone(g.Resources)
		if delete(rest, numa.DedicatedCPUs); len(rest) == 0 {
			rest[numa.DedicatedCPUs] = 1
		}
		ask.Groups[i].Resources = rest
	}
	return ask
}

// onNodes returns an allocation on the host in the form of NodesInPlacement: with what the guest's cells use of each
// node, and no other threads for dedicated CPUs.
func (h Host) onNodes(a resource.Allocation, cells []numa.GuestCell, placed []numa.Placed) resource.Allocation {
	out, _ := withoutNodes(a)
	for i, at := range placed[:min(len(placed), len(cells))] {
		out = out.Add(resource.Allocation{h.NodeProvider(at.Node): cells[i].Amounts(at.PageKB)})
	}
	return out
}

// withoutNodes returns an allocation without what cells use of nodes, and the number of threads for dedicated CPUs in
// it.
func withoutNodes(a resource.Allocation) (rest resource.Allocation, dedicated int) {
	rest = resource.Allocation{}
	for id, amounts := range a {
		dedicated += amounts[numa.DedicatedCPUs]
		left := maps.Clone(amounts)
		maps.DeleteFunc(left, func(class resource.Class, _ int) bool { return numa.IsNodeClass(class) })
		if len(left) > 0 {
			rest[id] = left
		}
	}
	return rest, dedicated
}

// InForm returns what the claim of a guest with NUMA cells must be now, in the form that the host has. root is the root
// of the host when it was claimed. If the host has changed its form since and the placement of the cells is not known
// yet, their CPUs are omitted.
func (h Host) InForm(claim resource.Allocation, root provider.ID, cells []numa.GuestCell,
	placed []numa.Placed) resource.Allocation {
	if len(cells) == 0 {
		return claim
	}
	rest, dedicated := withoutNodes(claim)
	switch {
	case h.NodesInPlacement && len(placed) > 0:
		return h.onNodes(claim, cells, placed)
	case h.NodesInPlacement && claim[root][numa.DedicatedCPUs] == 0:
		return claim
	case h.NodesInPlacement || dedicated == 0:
		return rest
	}
	return rest.Add(resource.Allocation{root: {numa.DedicatedCPUs: dedicated}})
}
