package index

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// addNames adds the names in the rows to the numbers.
func (s *Snapshot) addNames(rows []Row) {
	classes, traits := map[resource.Class]struct{}{}, map[resource.Trait]struct{}{}
	aggregates := map[resource.AggregateID]struct{}{}
	for _, r := range rows {
		for c := range r.Inventories {
			classes[c] = struct{}{}
		}
		for c := range r.Used {
			classes[c] = struct{}{}
		}
		for _, t := range r.Traits {
			traits[t] = struct{}{}
		}
		for _, a := range r.Aggregates {
			aggregates[a] = struct{}{}
		}
	}
	s.classes, s.traits, s.aggregates = s.classes.with(classes), s.traits.with(traits), s.aggregates.with(aggregates)
}

// buildTree returns the tree of rows whose names have numbers and whose IDs are distinct.
func (s *Snapshot) buildTree(root provider.ID, rows []Row) *Tree {
	sorted := make([]*Row, len(rows))
	for i := range rows {
		sorted[i] = &rows[i]
	}
	slices.SortFunc(sorted, func(a, b *Row) int { return cmp.Or(strings.Compare(a.Name, b.Name), order(a.ID, b.ID)) })
	inside := make(map[provider.ID]bool, len(rows))
	children := make(map[provider.ID][]int, len(rows))
	for i, r := range sorted {
		inside[r.ID] = true
		children[r.Parent] = append(children[r.Parent], i)
	}
	t := &Tree{Root: root, Nodes: make([]Node, 0, len(rows))}
	planted := make([]bool, len(rows))
	var walk func(i int, parent int32)
	walk = func(i int, parent int32) {
		if planted[i] {
			return // the parents form a cycle
		}
		planted[i] = true
		at := len(t.Nodes)
		t.Nodes = append(t.Nodes, s.node(sorted[i], parent))
		for _, c := range children[sorted[i].ID] {
			walk(c, int32(at))
		}
		t.Nodes[at].End = int32(len(t.Nodes))
	}
	tops := []func(*Row) bool{
		func(r *Row) bool { return r.ID == root },
		func(r *Row) bool { return r.Parent == "" || !inside[r.Parent] },
		func(*Row) bool { return true },
	}
	for _, top := range tops {
		for i, r := range sorted {
			if top(r) {
				walk(i, -1)
			}
		}
	}
	t.sum()
	return t
}

// treeWithRow returns a tree with one row replaced, or inserted among its siblings, and its position. It returns nil
// if the provider has moved or was renamed, because then more of the tree changes.
func (s *Snapshot) treeWithRow(old *Tree, r *Row) (t *Tree, at int) {
	if old == nil {
		return nil, -1
	}
	t = &Tree{Root: old.Root}
	if at = old.Find(r.ID); at < 0 {
		at = t.insert(old, r)
	} else if n := &old.Nodes[at]; n.Name == r.Name && old.parent(at) == r.Parent {
		t.Nodes = slices.Clone(old.Nodes)
	} else {
		at = -1
	}
	if at < 0 {
		return nil, -1
	}
	parent, end := t.Nodes[at].Parent, t.Nodes[at].End
	t.Nodes[at] = s.node(r, parent)
	t.Nodes[at].End = end
	t.sum()
	return t, at
}

// insert copies the nodes of a tree and adds one under its parent, among its siblings by name. It returns the
// position, or -1 if the parent is not in the tree or if nodes in it have the new node as their missing parent.
func (t *Tree) insert(old *Tree, r *Row) (at int) {
	parent := old.Find(r.Parent)
	if parent < 0 || slices.ContainsFunc(old.Nodes, func(n Node) bool { return n.missingParent == r.ID }) {
		return -1
	}
	for at = parent + 1; at < int(old.Nodes[parent].End); at = int(old.Nodes[at].End) {
		if n := &old.Nodes[at]; cmp.Or(strings.Compare(r.Name, n.Name), order(r.ID, n.ID)) < 0 {
			break
		}
	}
	t.Nodes = slices.Concat(old.Nodes[:at], []Node{{Parent: int32(parent), End: int32(at)}}, old.Nodes[at:])
	for i := at; i < len(t.Nodes); i++ {
		t.Nodes[i].End++
		if i > at && t.Nodes[i].Parent >= int32(at) {
			t.Nodes[i].Parent++
		}
	}
	for i := int32(parent); i >= 0; i = t.Nodes[i].Parent {
		t.Nodes[i].End++
	}
	return at
}

// node returns the node of one row.
func (s *Snapshot) node(r *Row, parent int32) Node {
	n := Node{ID: r.ID, Name: r.Name, Parent: parent, Generation: r.Generation}
	if parent < 0 {
		n.missingParent = r.Parent
	}
	n.Inventories = make([]Inventory, 0, len(r.Inventories))
	for c, inv := range r.Inventories {
		n.Inventories = append(n.Inventories, Inventory{Class: s.classes.of(c), Inventory: inv})
	}
	n.Inventories = s.used(n.Inventories, r.Used)
	n.Traits = numbered(s.traits, r.Traits)
	n.Aggregates = numbered(s.aggregates, r.Aggregates)
	n.shares = slices.Contains(r.Traits, Sharing)
	return n
}

// used returns a copy of the inventories with this usage.
func (s *Snapshot) used(inventories []Inventory, amounts resource.Amounts) []Inventory {
	out := make([]Inventory, 0, len(inventories))
	for _, st := range inventories {
		if st.Offered() {
			st.Used = amounts[s.classes.names[st.Class]]
			st.Room = min(st.Inventory.Capacity()-st.Used, st.Inventory.MaxUnit)
			out = append(out, st)
		}
	}
	offered := len(out)
	for c, used := range amounts {
		no := s.classes.of(c)
		if !slices.ContainsFunc(out[:offered], func(st Inventory) bool { return st.Class == no }) {
			out = append(out, Inventory{Class: no, Used: used, Room: -used})
		}
	}
	slices.SortFunc(out, func(a, b Inventory) int { return cmp.Compare(a.Class, b.Class) })
	return out
}

func numbered[N ~string](known numbers[N], names []N) []ID {
	if len(names) == 0 {
		return nil
	}
	out := make([]ID, len(names))
	for i, name := range names {
		out[i] = known.of(name)
	}
	slices.Sort(out)
	return slices.Clip(slices.Compact(out))
}

// sum collects the classes, traits and aggregates of all nodes.
func (t *Tree) sum() {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		for i := range n.Inventories {
			if st := &n.Inventories[i]; st.Offered() {
				t.Classes = append(t.Classes, st.Class)
			}
		}
		t.Traits = append(t.Traits, n.Traits...)
		t.Aggregates = append(t.Aggregates, n.Aggregates...)
	}
	for _, list := range []*[]ID{&t.Classes, &t.Traits, &t.Aggregates} {
		slices.Sort(*list)
		*list = slices.Clip(slices.Compact(*list))
	}
	t.Shape = t.shape()
}
