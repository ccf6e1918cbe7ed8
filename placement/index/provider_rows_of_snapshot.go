package index

import (
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Row is one provider with its inventories, traits and aggregates, and the used amount of each class.
type Row struct {
	provider.Provider
	Used resource.Amounts
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

// Row returns the row of one provider.
func (s *Snapshot) Row(id provider.ID) (Row, bool) {
	p, ok := s.Find(id)
	if !ok {
		return Row{}, false
	}
	return s.row(p.Tree, p.At, p.Node()), true
}

// Tree returns the rows of the tree with this root, parents before children; nil if there is no such tree.
func (s *Snapshot) Tree(root provider.ID) []Row {
	t := s.Lookup(root)
	if t == nil {
		return nil
	}
	rows := make([]Row, len(t.Nodes))
	for i := range t.Nodes {
		rows[i] = s.row(t, i, &t.Nodes[i])
	}
	return rows
}

// RowsWith returns the rows of all providers of a snapshot, with some classes and traits only.
func RowsWith(s *Snapshot, classes []resource.Class, traits []resource.Trait) []Row {
	list, wanted, named := make([]Row, 0, s.Providers()), map[ID]bool{}, map[ID]bool{}
	for _, class := range classes {
		wanted[s.Class(class)] = true
	}
	for _, trait := range traits {
		named[s.Trait(trait)] = true
	}
	for t := range s.Trees() {
		for i := range t.Nodes {
			n := t.Nodes[i] // a copy
			n.Inventories = slices.DeleteFunc(slices.Clone(n.Inventories), func(i Inventory) bool { return !wanted[i.Class] })
			n.Traits = slices.DeleteFunc(slices.Clone(n.Traits), func(t ID) bool { return !named[t] })
			list = append(list, s.row(t, i, &n))
		}
	}
	return list
}

// row returns the row of a node with what n has.
func (s *Snapshot) row(t *Tree, at int, n *Node) Row {
	r := Row{
		Provider: provider.Provider{
			ID:         n.ID,
			Name:       n.Name,
			Parent:     t.parent(at),
			Root:       t.Root,
			Generation: n.Generation,
		},
	}
	r.Inventories = make(map[resource.Class]resource.Inventory, len(n.Inventories))
	r.Used = resource.Amounts{}
	for _, st := range n.Inventories {
		if st.Offered() {
			r.Inventories[s.classes.names[st.Class]] = st.Inventory
		}
		if st.Used != 0 {
			r.Used[s.classes.names[st.Class]] = st.Used
		}
	}
	r.Traits = named(s.traits, n.Traits)
	r.Aggregates = named(s.aggregates, n.Aggregates)
	return r
}

func named[N ~string](known numbers[N], list []ID) []N {
	var out []N
	for _, no := range list {
		out = append(out, known.names[no])
	}
	slices.Sort(out)
	return out
}
