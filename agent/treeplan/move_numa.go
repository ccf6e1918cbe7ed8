package treeplan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// numaMove is a move of what guests with NUMA cells use: one reshape changes the inventories of the root and of the
// providers of nodes, and the allocations of all these guests. So nothing is offered twice, and nothing that a guest
// has looks free.
type numaMove int

// The moves.
const (
	stays   numaMove = iota
	toNodes          // threads for dedicated CPUs leave the root
	toRoot           // they return to the root, and the other classes of nodes end
)

// moveOf returns the move that leads to the aim. A new host needs none.
func moveOf(aim Aim, actual provider.Tree) numaMove {
	root, exists := actual.Root()
	wanted, dedicatedOnRoot := len(nodesOf(aim.Tree)) > 0, root.Inventories[numa.DedicatedCPUs].Total > 0
	switch {
	case wanted && exists && (!offersNodes(actual) || dedicatedOnRoot):
		return toNodes
	case !wanted && offersNodes(actual):
		return toRoot
	}
	return stays
}

// Moved lists the consumers whose allocations a move between the root and the providers of nodes changes, in order, as
// far as their use shows it. Make needs their whole allocations.
func Moved(aim Aim, actual provider.Tree, uses Uses) []resource.ConsumerID {
	root, _ := actual.Root()
	list := map[resource.ConsumerID]bool{}
	switch moveOf(aim, actual) {
	case toNodes:
		holders, _ := uses.holders(root.ID, numa.DedicatedCPUs)
		for _, consumer := range holders {
			list[consumer] = true
		}
	case toRoot:
		for _, node := range nodesOf(actual) {
			for class := range nodeClasses(node) {
				holders, _ := uses.holders(node.ID, class)
				for _, consumer := range holders {
					list[consumer] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(list))
}

// prepareMove decides whether the move may be made now. Until then the inventories stay where they are: the tree to
// report is changed accordingly.
func (m *planner) prepareMove(desired provider.Tree) provider.Tree {
	m.numa = moveOf(m.aim, m.actual)
	if m.numa == stays || m.uses == nil {
		return desired
	}
	root, _ := m.actual.Root()
	reason := m.whyNotMoved(root)
	if reason == "" {
		return desired
	}
	m.waits = true
	m.addNote("the CPUs and the memory of NUMA nodes are not moved in Placement yet: %s", reason)
	out := provider.Tree{Providers: slices.Clone(desired.Providers)}
	for i, p := range out.Providers {
		inventories := maps.Clone(p.Inventories)
		switch {
		case p.Parent == "" && m.numa == toRoot:
			delete(inventories, numa.DedicatedCPUs)
		case p.Parent == "":
			if now, has := root.Inventories[numa.DedicatedCPUs]; has {
				inventories[numa.DedicatedCPUs] = now
			}
		case isNode(p, root) && !offersNodes(m.actual):
			inventories = map[resource.Class]resource.Inventory{}
		}
		out.Providers[i].Inventories = inventories
	}
	return out
}

// whyNotMoved returns why the move must wait; empty if it need not. The agent knows the nodes only of guests in its
// journal, so a claim that is not there yet must be there first.
func (m *planner) whyNotMoved(root provider.Provider) string {
	for _, consumer := range Moved(m.aim, m.actual, m.uses) {
		has, read := m.aim.Allocations[consumer]
		if !read {
			return fmt.Sprintf("the allocation of %s has not been read", consumer)
		}
		if m.numa == toRoot {
			continue
		}
		on, guest := has[root.ID][numa.DedicatedCPUs], m.aim.Expected[consumer].Nodes.Sum()[numa.DedicatedCPUs]
		if guest == 0 {
			return fmt.Sprintf("%s has %d PCPU of %s, and no guest here has its CPUs; wait until its guest is built, or if "+
				"compute does not know it, remove its allocation with `berth host heal %s --apply --remove %s`", consumer, on,
				root.Name, root.Name, consumer)
		}
		all := on + m.aim.Expected[consumer].Nodes.Common(has).Sum()[numa.DedicatedCPUs]
		switch {
		case all < guest:
			return fmt.Sprintf("%s has %d PCPU of %s, and its guest has %d CPUs of its own; write what is missing with "+
				"`berth host heal %s --apply`", consumer, all, root.Name, guest, root.Name)
		case all > guest:
			return fmt.Sprintf("%s has %d PCPU of %s, and its guest has %d CPUs of its own; set its PCPU in Placement to %d, "+
				"or delete the server or move it to another host", consumer, all, root.Name, guest, guest)
		}
	}
	return ""
}

// moveNUMA adds the move to a reshape, and returns what it changes.
func (m *planner) moveNUMA(step Step) (changes []string) {
	if m.waits || m.numa == stays {
		return nil
	}
	root, _ := m.actual.Root()
	step.InventorySets[root.ID] = InventorySet{Generation: root.Generation, Inventories: maps.Clone(m.planned[root.ID])}
	if m.numa == toRoot {
		m.plan.More = true // then the providers of the nodes are deleted
		return m.moveToRoot(step, root)
	}
	for _, want := range nodesOf(m.aim.Tree) {
		id := m.ids[want.ID]
		step.InventorySets[id] = InventorySet{Generation: m.observed[id].Generation, Inventories: maps.Clone(m.planned[id])}
	}
	return append([]string{"NUMA nodes have providers of their own"}, m.moveToNodes(step, root)...)
}

// moveToNodes gives each consumer with NUMA cells here what its guest uses of each node, and takes its dedicated CPUs
// from the root.
func (m *planner) moveToNodes(step Step, root provider.Provider) (changes []string) {
	for _, consumer := range slices.Sorted(maps.Keys(m.aim.Allocations)) {
		guest, has := m.aim.Expected[consumer], m.aim.Allocations[consumer]
		if len(guest.Nodes) == 0 || len(has[root.ID]) == 0 {
			continue // nothing of it is here, as after a move whose guest is still here
		}
		next := has.Clone()
		delete(next[root.ID], numa.DedicatedCPUs)
		if len(next[root.ID]) == 0 {
			delete(next, root.ID)
		}
		for want, amounts := range guest.Nodes {
			next[m.ids[want]] = maps.Clone(amounts)
		}
		step.Allocations[consumer] = next
		changes = append(changes, fmt.Sprintf("%s has %s", consumer, guest.Nodes.Sum()))
	}
	return changes
}

// moveToRoot gives each consumer its dedicated CPUs on the root, and takes all that it has of nodes.
func (m *planner) moveToRoot(step Step, root provider.Provider) (changes []string) {
	nodes := nodesOf(m.actual)
	for _, node := range nodes {
		rest := maps.Clone(node.Inventories)
		for class := range nodeClasses(node) {
			delete(rest, class)
		}
		step.InventorySets[node.ID] = InventorySet{Generation: node.Generation, Inventories: rest}
	}
	changes = []string{"NUMA nodes have no providers of their own"}
	for _, consumer := range Moved(m.aim, m.actual, m.uses) {
		next := m.aim.Allocations[consumer].Clone()
		cpus := dedicated(next, m.actual)
		for _, node := range nodes {
			maps.DeleteFunc(next[node.ID], func(class resource.Class, _ int) bool { return numa.IsNodeClass(class) })
			if len(next[node.ID]) == 0 {
				delete(next, node.ID)
			}
		}
		if cpus > 0 {
			if next[root.ID] == nil {
				next[root.ID] = resource.Amounts{}
			}
			next[root.ID][numa.DedicatedCPUs] = cpus
			changes = append(changes, fmt.Sprintf("%s has PCPU:%d", consumer, cpus))
		}
		step.Allocations[consumer] = next
	}
	return changes
}
