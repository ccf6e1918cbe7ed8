// Package index holds all provider trees with their usage in memory, as one immutable value: the Snapshot.
//
// The server keeps the newest snapshot behind one atomic pointer, so readers never wait. A writer that has committed
// to the database reads the changed trees again and swaps in the result of Replace. A snapshot may be stale: it
// proposes, and SQL decides.
//
// Classes, traits and aggregates have small dense numbers, and a provider is a Node with sorted lists of them, not
// with maps. A number is valid in a snapshot and in all snapshots derived from it; Build starts again.
//
// Inconsistent rows are accepted. A provider whose parent is not among the rows of its tree (the database was read
// during a change, or is damaged) is a node without a parent, not an error: it can be shown, and SQL decides about a
// claim on it. The same is true for a tree whose root row is missing. Of two rows with one ID the later one counts.
package index

import (
	"iter"
	"maps"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Sharing is the trait of sharing providers: each tree with a provider in one of their aggregates can use their
// inventory.
const Sharing resource.Trait = "MISC_SHARES_VIA_AGGREGATE"

// Row is one provider with its inventories, traits and aggregates, and the used amount of each class.
type Row struct {
	provider.Provider
	Used resource.Amounts
}

// Snapshot holds all trees at one moment. It never changes; the zero value has no trees. Returned values are shared
// and must not be changed, except rows, which are built at each call.
type Snapshot struct {
	trees   sorted[*Tree]       // by the ID of the root
	owner   sorted[provider.ID] // provider → root of its tree
	sharing sorted[provider.ID] // sharing providers → root of their tree

	classes    numbers[resource.Class]
	traits     numbers[resource.Trait]
	aggregates numbers[resource.AggregateID]

	byClass, byTrait, byMember postings
	byShape, byRoom            sorted[struct{}]
}

// Place is the position of a provider in its tree.
type Place struct {
	Tree *Tree
	At   int // the position in Tree.Nodes
}

// Node returns the provider.
func (p Place) Node() *Node { return &p.Tree.Nodes[p.At] }

// Build returns a snapshot of all rows. The tree of a row is given by its Root; a row without one is its own root.
// The cost is that of sorting the rows.
func Build(rows []Row) *Snapshot {
	s := &Snapshot{}
	s.addNames(rows)
	byRoot := map[provider.ID][]Row{}
	for _, r := range latest(rows) {
		root := r.Root
		if root == "" {
			root = r.ID
		}
		byRoot[root] = append(byRoot[root], r)
	}
	var places []Place
	for _, root := range slices.Sorted(maps.Keys(byRoot)) {
		t := s.buildTree(root, byRoot[root])
		s.trees.append(root, t)
		s.byClass.append(t.Classes, root)
		s.byTrait.append(t.Traits, root)
		s.byMember.append(t.Aggregates, root)
		for i := range t.Nodes {
			places = append(places, Place{t, i})
		}
	}
	s.buildOrders()
	slices.SortFunc(places, func(a, b Place) int { return order(a.Node().ID, b.Node().ID) })
	for _, p := range places {
		s.owner.append(p.Node().ID, p.Tree.Root)
		if p.Node().Shares() {
			s.sharing.append(p.Node().ID, p.Tree.Root)
		}
	}
	return s
}

// latest keeps only the last row of each ID.
func latest(rows []Row) []Row {
	last := make(map[provider.ID]int, len(rows))
	for i, r := range rows {
		last[r.ID] = i
	}
	if len(last) == len(rows) {
		return rows
	}
	out := make([]Row, 0, len(last))
	for i, r := range rows {
		if last[r.ID] == i {
			out = append(out, r)
		}
	}
	return out
}

// Replace returns a snapshot in which the tree with this root has these rows and everything else is unchanged;
// without rows the tree is removed. Providers that moved between two trees need two calls, one for each tree, in
// either order. The cost depends on the size of the tree, not on the number of trees.
func (s *Snapshot) Replace(root provider.ID, rows []Row) *Snapshot {
	next := *s
	old, fresh := s.Lookup(root), &Tree{Root: root}
	if old == nil {
		old = &Tree{Root: root}
	}
	if len(rows) > 0 {
		next.addNames(rows)
		fresh = next.buildTree(root, latest(rows))
	}
	next.trees = s.trees.edit(func(d *draft[*Tree]) {
		if len(rows) > 0 {
			d.put(root, fresh)
		} else {
			d.drop(root)
		}
	})
	next.updatePostings(old, fresh)
	next.owner = s.owner.edit(
		func(d *draft[provider.ID]) { updateProviders(d, old, fresh, func(*Node) bool { return true }) })
	next.sharing = s.sharing.edit(func(d *draft[provider.ID]) { updateProviders(d, old, fresh, (*Node).Shares) })
	return &next
}

// WithRow returns a snapshot in which one provider has this row and everything else is unchanged. The provider
// belongs to an existing tree, or is new and has a parent in an existing tree. It is Replace for one row, and costs
// much less.
func (s *Snapshot) WithRow(r Row) *Snapshot {
	next := *s
	next.addNames([]Row{r})
	old := s.Lookup(r.Root)
	fresh, at := next.treeWithRow(old, &r)
	if fresh == nil {
		rows := slices.DeleteFunc(s.Tree(r.Root), func(other Row) bool { return other.ID == r.ID })
		return s.Replace(r.Root, append(rows, r))
	}
	next.trees = s.trees.edit(func(d *draft[*Tree]) { d.put(r.Root, fresh) })
	next.updatePostings(old, fresh)
	if len(fresh.Nodes) > len(old.Nodes) {
		next.owner = s.owner.edit(func(d *draft[provider.ID]) { d.put(r.ID, r.Root) })
	}
	if _, did := s.sharing.get(r.ID); did || fresh.Nodes[at].Shares() {
		next.sharing = s.sharing.edit(func(d *draft[provider.ID]) { updateProviders(d, old, fresh, (*Node).Shares) })
	}
	return &next
}

// WithUsage returns a snapshot in which these providers have this usage and everything else is unchanged. Their
// generations are unchanged too: a generation determines when the rest of a provider was read. Unknown providers are
// left out. The cost depends on the size of the changed trees.
func (s *Snapshot) WithUsage(uses map[provider.ID]resource.Amounts) *Snapshot {
	next := *s
	classes := map[resource.Class]struct{}{}
	for _, amounts := range uses {
		for c := range amounts {
			classes[c] = struct{}{}
		}
	}
	next.classes = s.classes.with(classes)
	fresh := map[provider.ID]*Tree{}
	for id, amounts := range uses {
		place, ok := s.Find(id)
		if !ok {
			continue
		}
		t := fresh[place.Tree.Root]
		if t == nil {
			copied := *place.Tree
			copied.Nodes = slices.Clone(copied.Nodes)
			t = &copied
			fresh[t.Root] = t
		}
		n := &t.Nodes[place.At]
		n.Inventories = next.used(n.Inventories, amounts)
	}
	next.trees = s.trees.edit(func(d *draft[*Tree]) {
		for root, t := range fresh {
			t.Shape = t.shape()
			next.updateOrders(s.Lookup(root), t)
			d.put(root, t)
		}
	})
	return &next
}

// Len returns the number of trees.
func (s *Snapshot) Len() int { return s.trees.size }

// Providers returns the number of providers.
func (s *Snapshot) Providers() int { return s.owner.size }

// Row returns the row of one provider.
func (s *Snapshot) Row(id provider.ID) (Row, bool) {
	p, ok := s.Find(id)
	if !ok {
		return Row{}, false
	}
	return s.row(p.Tree, p.At), true
}

// Tree returns the rows of the tree with this root, parents before children; nil if there is no such tree.
func (s *Snapshot) Tree(root provider.ID) []Row {
	t := s.Lookup(root)
	if t == nil {
		return nil
	}
	rows := make([]Row, len(t.Nodes))
	for i := range t.Nodes {
		rows[i] = s.row(t, i)
	}
	return rows
}

// Find returns the place of a provider.
func (s *Snapshot) Find(id provider.ID) (Place, bool) {
	t := s.Lookup(s.RootOf(id))
	if t == nil {
		return Place{}, false
	}
	at := t.Find(id)
	return Place{t, at}, at >= 0
}

// RootOf returns the root of the tree that contains a provider, or "" if there is no such provider.
func (s *Snapshot) RootOf(id provider.ID) provider.ID {
	root, _ := s.owner.get(id)
	return root
}

// Lookup returns the tree with this root, or nil.
func (s *Snapshot) Lookup(root provider.ID) *Tree {
	t, _ := s.trees.get(root)
	return t
}

// Roots iterates over the roots of all trees in the order of their IDs.
func (s *Snapshot) Roots() iter.Seq[provider.ID] {
	return func(yield func(provider.ID) bool) {
		for root := range s.trees.all() {
			if !yield(root) {
				return
			}
		}
	}
}

// Trees iterates over all trees in the order of the IDs of their roots.
func (s *Snapshot) Trees() iter.Seq[*Tree] {
	return func(yield func(*Tree) bool) {
		for _, t := range s.trees.all() {
			if !yield(t) {
				return
			}
		}
	}
}

// updateProviders adds the providers of a tree that qualify, and removes those that no longer do, except those that
// another tree has since added.
func updateProviders(d *draft[provider.ID], old, fresh *Tree, qualifies func(*Node) bool) {
	kept := make(map[provider.ID]bool, len(fresh.Nodes))
	for i := range fresh.Nodes {
		id := fresh.Nodes[i].ID
		kept[id] = true
		switch root, known := d.get(id); {
		case !qualifies(&fresh.Nodes[i]):
			d.drop(id)
		case !known || root != fresh.Root:
			d.put(id, fresh.Root)
		}
	}
	for i := range old.Nodes {
		id := old.Nodes[i].ID
		if root, _ := d.get(id); root == old.Root && !kept[id] {
			d.drop(id)
		}
	}
}

// updatePostings updates the postings where two versions of a tree differ.
func (s *Snapshot) updatePostings(old, fresh *Tree) {
	s.byClass = s.byClass.move(fresh.Root, old.Classes, fresh.Classes)
	s.byTrait = s.byTrait.move(fresh.Root, old.Traits, fresh.Traits)
	s.byMember = s.byMember.move(fresh.Root, old.Aggregates, fresh.Aggregates)
	s.updateOrders(old, fresh)
}

// Class returns the number of a class, or Unknown.
func (s *Snapshot) Class(c resource.Class) ID { return s.classes.of(c) }

// Trait returns the number of a trait, or Unknown.
func (s *Snapshot) Trait(t resource.Trait) ID { return s.traits.of(t) }

// Aggregate returns the number of an aggregate, or Unknown.
func (s *Snapshot) Aggregate(a resource.AggregateID) ID { return s.aggregates.of(a) }
