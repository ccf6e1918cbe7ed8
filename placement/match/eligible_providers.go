package match

import (
	"slices"

	"github.com/openberth/berth/placement/index"
)

// HasRoom reports whether a provider has room for one item, whatever its conditions.
func (c *ItemClass) HasRoom(n *index.Node) bool {
	for _, need := range c.Needs {
		if st := n.Inventory(need.Number); st == nil || !st.Fits(need.Amount) {
			return false
		}
	}
	return true
}

// Offered reports whether a provider has inventory of all resource classes that an item needs, free or not.
func (c *ItemClass) Offered(n *index.Node) bool {
	for _, need := range c.Needs {
		if !Offers(n, need.Number) {
			return false
		}
	}
	return true
}

// Offers reports whether a provider has inventory of a resource class, free or not.
func Offers(n *index.Node, class index.ID) bool {
	st := n.Inventory(class)
	return st != nil && st.Offered()
}

// Admits reports whether a provider meets the conditions of an item (traits, aggregates and in_tree) for candidates of
// a tree. The provider belongs to the tree, or is a sharing provider connected with it.
func (c *ItemClass) Admits(t *index.Tree, at index.Place) bool {
	switch {
	case !c.Unsuffixed:
		return c.admitsAlone(at)
	case at.Tree == t:
		return c.admitsInTree(at)
	}
	return !c.InTree && c.admitsAlone(at) && !inAny(t.Top(), c.NotMemberOf)
}

// admitsAlone reports whether the provider itself meets all conditions.
func (c *ItemClass) admitsAlone(at index.Place) bool {
	n := at.Node()
	if c.InTree && len(c.Needs) > 0 && at.Tree.Root != c.TreeRoot {
		return false
	}
	return c.hasTraits(n) && inAll(n, c.MemberOf) && !inAny(n, c.NotMemberOf)
}

// admitsInTree is admitsAlone for the unsuffixed group in its own tree: an aggregate of the root holds for all
// providers of the tree.
func (c *ItemClass) admitsInTree(at index.Place) bool {
	n, top := at.Node(), at.Tree.Top()
	if c.InTree && at.Tree.Root != c.TreeRoot || !c.hasTraits(n) {
		return false
	}
	member := inAll(n, c.MemberOf) || top != nil && inAll(top, c.MemberOf)
	return member && !inAny(n, c.NotMemberOf) && !inAny(top, c.NotMemberOf)
}

// hasTraits reports whether the provider has the required traits and none of the forbidden ones.
func (c *ItemClass) hasTraits(n *index.Node) bool {
	for _, set := range c.Required {
		if !slices.ContainsFunc(set, n.HasTrait) {
			return false
		}
	}
	return !slices.ContainsFunc(c.Forbidden, n.HasTrait)
}

func inAll(n *index.Node, sets [][]index.ID) bool {
	for _, set := range sets {
		if !slices.ContainsFunc(set, n.In) {
			return false
		}
	}
	return true
}

func inAny(n *index.Node, set []index.ID) bool { return n != nil && slices.ContainsFunc(set, n.In) }

// AdmitsRoot reports whether the root of a tree meets root_required. A tree without its root row meets only an empty
// clause.
func (q *Query) AdmitsRoot(t *index.Tree) bool {
	if len(q.RootRequired)+len(q.RootForbidden) == 0 {
		return true
	}
	top := t.Top()
	if top == nil {
		return false
	}
	for _, trait := range q.RootRequired {
		if !top.HasTrait(trait) {
			return false
		}
	}
	return !slices.ContainsFunc(q.RootForbidden, top.HasTrait)
}
