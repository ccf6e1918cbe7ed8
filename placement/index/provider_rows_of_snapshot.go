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

// RowsWith returns the rows of all providers of a snapshot, with some classes and traits only.
func RowsWith(s *Snapshot, classes []resource.Class, traits []resource.Trait) []Row {
	list, wanted, kept := make([]Row, 0, s.Providers()), map[ID]resource.Class{}, map[ID]resource.Trait{}
	for _, class := range classes {
		wanted[s.Class(class)] = class
	}
	for _, trait := range traits {
		kept[s.Trait(trait)] = trait
	}
	for t := range s.Trees() {
		for at := range t.Nodes {
			n := &t.Nodes[at]
			r := Row{Provider: t.bare(at)}
			for _, st := range n.Inventories {
				if class := wanted[st.Class]; class != "" {
					r.add(class, st)
				}
			}
			for _, id := range n.Traits {
				if trait := kept[id]; trait != "" {
					r.Traits = append(r.Traits, trait)
				}
			}
			slices.Sort(r.Traits)
			r.Aggregates = named(s.aggregates, n.Aggregates)
			list = append(list, r)
		}
	}
	return list
}

// add adds an inventory and its usage.
func (r *Row) add(class resource.Class, st Inventory) {
	if st.Offered() {
		if r.Inventories == nil {
			r.Inventories = map[resource.Class]resource.Inventory{}
		}
		r.Inventories[class] = st.Inventory
	}
	if st.Used != 0 {
		if r.Used == nil {
			r.Used = resource.Amounts{}
		}
		r.Used[class] = st.Used
	}
}

// bare returns the provider of a node without what it has.
func (t *Tree) bare(at int) provider.Provider {
	n := &t.Nodes[at]
	return provider.Provider{ID: n.ID, Name: n.Name, Parent: t.parent(at), Root: t.Root, Generation: n.Generation}
}

// row returns the row of a node.
func (s *Snapshot) row(t *Tree, at int) Row {
	n := &t.Nodes[at]
	r := Row{Provider: t.bare(at)}
	r.Inventories = make(map[resource.Class]resource.Inventory, len(n.Inventories))
	r.Used = resource.Amounts{}
	for _, st := range n.Inventories {
		r.add(s.classes.names[st.Class], st)
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
