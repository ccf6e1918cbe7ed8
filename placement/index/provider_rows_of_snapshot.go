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

// row returns the row of a node.
func (s *Snapshot) row(t *Tree, at int) Row {
	n := &t.Nodes[at]
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
