package index

import (
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Sharing is the trait of sharing providers: each tree with a provider in one of their aggregates can use their
// inventory.
const Sharing resource.Trait = "MISC_SHARES_VIA_AGGREGATE"

// Tree is one provider tree: parents before their children, siblings by name, the root first. Nodes that are not the
// root and have no parent in the tree are at the end.
type Tree struct {
	Root       provider.ID
	Nodes      []Node
	Classes    []ID // of all nodes, sorted
	Traits     []ID // of all nodes, sorted
	Aggregates []ID // of all nodes, sorted
	Shape      Shape
}

// Node is one provider of a tree.
type Node struct {
	ID            provider.ID
	Name          string
	Parent        int32       // the position of the parent in the tree, or -1
	End           int32       // the position after its last descendant: its subtree is Nodes[i:End]
	Generation    int         // when the whole provider was read, and what AddUsage has added
	Inventories   []Inventory // sorted by class
	Traits        []ID        // sorted
	Aggregates    []ID        // sorted
	missingParent provider.ID // the parent, if it is not in the tree
	shares        bool
}

// Inventory is the inventory of one class on one provider, with its usage.
type Inventory struct {
	Class     ID
	Inventory resource.Inventory // the zero value when the provider has usage of the class but no inventory
	Used      int
	Room      int // the largest amount that can still be allocated: within capacity and max_unit
}

// Shape is the same for two trees if they differ in nothing but IDs, names and generations: node by node the same
// inventories, usage, traits and aggregates under the same parents. Every request that one of them satisfies, the
// other one satisfies too, at the same positions. It is a digest: two different trees have the same shape only with a
// negligible probability, and SQL checks every claim. Shapes of one snapshot and those derived from it can be
// compared.
type Shape [2]uint64

// Offered reports whether the provider has inventory of the class.
func (s *Inventory) Offered() bool { return s.Inventory != resource.Inventory{} }

// Fits reports whether amount more units can be allocated. Unlike Inventory.Fits it accepts a step_size of 0.
func (s *Inventory) Fits(amount int) bool {
	return amount <= s.Room && amount >= s.Inventory.MinUnit &&
		(s.Inventory.StepSize < 2 || amount%s.Inventory.StepSize == 0)
}

// Inventory returns the node's inventory of a class, or nil.
func (n *Node) Inventory(class ID) *Inventory {
	for i := range n.Inventories {
		if n.Inventories[i].Class == class {
			return &n.Inventories[i]
		}
	}
	return nil
}

// HasTrait reports whether the node has the trait.
func (n *Node) HasTrait(t ID) bool { return contains(n.Traits, t) }

// In reports whether the node is a member of the aggregate.
func (n *Node) In(aggregate ID) bool { return contains(n.Aggregates, aggregate) }

// Shares reports whether the node is a sharing provider in at least one aggregate.
func (n *Node) Shares() bool { return n.shares && len(n.Aggregates) > 0 }

// Top returns the node of the root, or nil if its row is missing.
func (t *Tree) Top() *Node {
	if len(t.Nodes) > 0 && t.Nodes[0].ID == t.Root {
		return &t.Nodes[0]
	}
	return nil
}

// Has reports whether some node has inventory of the class.
func (t *Tree) Has(class ID) bool { return contains(t.Classes, class) }

// Find returns the position of a provider, or -1.
func (t *Tree) Find(id provider.ID) int {
	for i := range t.Nodes { // by index: a node is large, so it is not copied
		if t.Nodes[i].ID == id {
			return i
		}
	}
	return -1
}

// parent returns the parent that the row of a node names.
func (t *Tree) parent(at int) provider.ID {
	if n := &t.Nodes[at]; n.Parent < 0 {
		return n.missingParent
	}
	return t.Nodes[t.Nodes[at].Parent].ID
}
