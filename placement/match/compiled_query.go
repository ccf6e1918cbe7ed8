// Package match compiles an ask for one snapshot and decides which providers can serve which part of it.
//
// It compares one item with one provider at a time: has the provider the inventory, the room, the traits, the
// aggregates and the tree that the item requires? Whether all items fit together is decided by package candidate, and
// why they do not is explained by package explain.
package match

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Query is an ask compiled for one snapshot. Names are replaced by the snapshot's numbers, equal items are counted
// instead of repeated, and the whole is divided into sections that do not compete with each other. It is not changed
// after Compile has returned it.
//
// A resource class is identified by its position in Classes, and an item class by its position in ItemClasses.
type Query struct {
	Snapshot      *index.Snapshot
	Ask           resource.Ask
	Impossible    string     // why no provider can ever meet some group; "" when that is not known
	Classes       []index.ID // the resource classes asked for
	Names         []resource.Class
	Items         []Item
	ItemClasses   []ItemClass
	Sections      []Section
	RootRequired  []index.ID
	RootForbidden []index.ID
	Cover         [][]index.ID // required traits that the providers of the unsuffixed group must have together
	Subtrees      [][]int      // same_subtree: by clause, the positions of its items; at least two
	Isolate       bool         // no two suffixed items may use one provider
	Sharing       []index.Place
	Shared        []SharingProvider

	byAggregate map[index.ID][]int // aggregate → positions in Shared
	inTreeRoots []provider.ID      // the roots of the trees that in_tree names
}

// Item is one thing that a single provider must supply: a suffixed group, or one resource class of the unsuffixed
// group.
type Item struct {
	Suffix  string
	Group   int              // position in Ask.Groups
	Class   int              // position in ItemClasses
	Amounts resource.Amounts // what the item takes; empty for a group without resources
}

// ItemClass is what equal items have in common: the amounts they need and the conditions on the provider.
type ItemClass struct {
	Needs       []Need
	Unsuffixed  bool
	Required    [][]index.ID // the provider has at least one trait of each
	Forbidden   []index.ID   // the provider has none of these traits
	MemberOf    [][]index.ID // the provider is in at least one aggregate of each
	NotMemberOf []index.ID   // the provider is in none of these aggregates
	InTree      bool
	TreeRoot    provider.ID // the root of the tree that in_tree names
	Subtrees    []int       // positions in Query.Subtrees
	Items       []int       // positions in Query.Items
	Group       resource.Group
	Amounts     resource.Amounts // of one item
	Resource    resource.Class   // the first resource class needed, or ""
	Shareable   bool             // some sharing provider can serve it in other trees
}

// Need is an amount of one resource class.
type Need struct {
	Class  int      // position in Query.Classes
	Number index.ID // of the class in the snapshot
	Amount int
}

// Section is a set of item classes that may compete for the same units or providers, or that a same_subtree clause
// ties together. Sections are independent: any solution of one can be combined with any solution of another.
type Section struct {
	ItemClasses []int
	Items       []int
	Classes     []int
	Clauses     []int // same_subtree clauses, positions in Query.Subtrees
	Covers      bool  // Query.Cover applies to it
	Exact       bool  // each provider takes a fixed number of its items, whichever they are
}

// SharingProvider is a sharing provider that can serve item classes in other trees.
type SharingProvider struct {
	index.Place
	ItemClasses []int // what it can serve, as far as that does not depend on the other tree
}

// Amount returns how many units of a resource class one item needs.
func (c *ItemClass) Amount(class int) int {
	for _, n := range c.Needs {
		if n.Class == class {
			return n.Amount
		}
	}
	return 0
}

// Weight returns the sum of all amounts that one item needs.
func (c *ItemClass) Weight() int {
	sum := 0
	for _, n := range c.Needs {
		sum = Plus(sum, n.Amount)
	}
	return sum
}

// NamesTree reports whether in_tree names this tree. Another tree of the same shape cannot replace such a tree.
func (q *Query) NamesTree(t *index.Tree) bool {
	return len(q.inTreeRoots) > 0 && slices.Contains(q.inTreeRoots, t.Root)
}

// InTreeRoots returns the roots of the trees that in_tree names.
func (q *Query) InTreeRoots() []provider.ID { return q.inTreeRoots }
