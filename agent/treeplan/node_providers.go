package treeplan

import (
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// isNode reports whether a provider is that of a NUMA node of the host with this root. Agents derive its name and its
// id, so no trait needs to mark it.
func isNode(p, root provider.Provider) bool {
	_, is := numa.NodeOf(root.Name, p.Name)
	return is && p.Parent == root.ID && p.ID == provider.IDFromName(root.ID, p.Name)
}

// nodesOf lists the providers of the NUMA nodes of a host.
func nodesOf(t provider.Tree) []provider.Provider {
	root, _ := t.Root()
	return slices.DeleteFunc(slices.Clone(t.Providers), func(p provider.Provider) bool { return !isNode(p, root) })
}

// OnNodes reports whether Placement has what NUMA nodes give to guests on the providers of the nodes, and no threads
// for dedicated CPUs on the root: the claim of a guest with NUMA cells takes from the providers of its nodes.
func OnNodes(t provider.Tree) bool {
	root, _ := t.Root()
	return offersNodes(t) && root.Inventories[numa.DedicatedCPUs].Total == 0
}

// offersNodes reports whether some provider of a node has inventories.
func offersNodes(t provider.Tree) bool {
	return slices.ContainsFunc(nodesOf(t), func(p provider.Provider) bool { return len(nodeClasses(p)) > 0 })
}

// nodeClasses returns the inventories of a node that the agent owns.
func nodeClasses(p provider.Provider) map[resource.Class]resource.Inventory {
	out := map[resource.Class]resource.Inventory{}
	for class, inv := range p.Inventories {
		if numa.IsNodeClass(class) {
			out[class] = inv
		}
	}
	return out
}

// dedicated returns the threads for dedicated CPUs in an allocation, on the root and the nodes of a tree.
func dedicated(a resource.Allocation, t provider.Tree) (n int) {
	root, _ := t.Root()
	n = a[root.ID][numa.DedicatedCPUs]
	for _, p := range nodesOf(t) {
		n += a[p.ID][numa.DedicatedCPUs]
	}
	return n
}
