package index

import (
	"maps"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Build returns a snapshot of all rows. The tree of a row is given by its Root; a row without one is its own root.
// The cost is that of sorting the rows.
func Build(rows []Row) *Snapshot {
	byRoot := map[provider.ID][]Row{}
	for _, r := range latest(rows) {
		root := r.Root
		if root == "" {
			root = r.ID
		}
		byRoot[root] = append(byRoot[root], r)
	}
	var b Builder
	b.s.addNames(rows)
	for _, root := range slices.Sorted(maps.Keys(byRoot)) {
		b.Add(root, byRoot[root])
	}
	return b.Snapshot()
}

// Builder makes a snapshot of one tree after the other. Its zero value has no trees.
type Builder struct{ s Snapshot }

// Add adds the tree with this root, which comes after those of earlier calls. The rows have distinct IDs, and are not
// used afterwards.
func (b *Builder) Add(root provider.ID, rows []Row) {
	b.s.addNames(rows)
	t := b.s.buildTree(root, rows)
	b.s.trees.append(root, t)
	b.s.byClass.append(t.Classes, root)
	b.s.byTrait.append(t.Traits, root)
	b.s.byMember.append(t.Aggregates, root)
}

// Snapshot returns the snapshot of all added trees. Nothing is added afterwards.
func (b *Builder) Snapshot() *Snapshot {
	s := &b.s
	s.buildOrders()
	var places []Place
	for _, t := range s.trees.all() {
		for i := range t.Nodes {
			places = append(places, Place{t, i})
		}
	}
	slices.SortFunc(places, func(a, b Place) int { return order(a.Node().ID, b.Node().ID) })
	for _, p := range places {
		s.owner.append(p.Node().ID, p.Tree.Root)
		if p.Node().Shares() {
			s.sharing.append(p.Node().ID, p.Tree.Root)
		}
	}
	return s
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
	return s.withUsage(uses, nil)
}

// AddUsage returns a snapshot in which these amounts have been added to the usage of these providers, and these numbers
// to their generations. An amount is negative after a removal. It leaves out and returns the providers that the
// snapshot does not have, and those whose usage would become negative.
func (s *Snapshot) AddUsage(added map[provider.ID]resource.Amounts,
	raised map[provider.ID]int) (next *Snapshot, left []provider.ID) {
	uses := make(map[provider.ID]resource.Amounts, len(added))
	for id, amounts := range added {
		place, known := s.Find(id)
		if !known {
			left = append(left, id)
			continue
		}
		sums := usage(place.Node(), s.classes.names)
		negative := false
		for class, n := range amounts {
			sums[class] += n
			negative = negative || sums[class] < 0
			if sums[class] == 0 {
				delete(sums, class)
			}
		}
		if negative {
			left = append(left, id)
			continue
		}
		uses[id] = sums
	}
	return s.withUsage(uses, raised), left
}

// usage returns the usage of a provider by class, without zeros.
func usage(n *Node, names []resource.Class) resource.Amounts {
	sums := make(resource.Amounts, len(n.Inventories))
	for _, in := range n.Inventories {
		if in.Used != 0 {
			sums[names[in.Class]] = in.Used
		}
	}
	return sums
}

func (s *Snapshot) withUsage(uses map[provider.ID]resource.Amounts, raised map[provider.ID]int) *Snapshot {
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
		n.Generation += raised[id]
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
