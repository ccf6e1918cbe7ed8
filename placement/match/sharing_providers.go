package match

import (
	"slices"

	"github.com/openberth/berth/placement/index"
)

// ConnectedTo appends to list the positions in q.Shared of the sharing providers of other trees that have an aggregate
// in common with this one, ascending.
func (q *Query) ConnectedTo(t *index.Tree, list []int) []int {
	if len(q.Shared) == 0 {
		return list
	}
	for _, a := range t.Aggregates {
		for _, at := range q.byAggregate[a] {
			if q.Shared[at].Tree != t {
				list = append(list, at)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Connected reports whether a provider has an aggregate in common with any provider of the tree.
func Connected(n *index.Node, t *index.Tree) bool { return slices.ContainsFunc(t.Aggregates, n.In) }

// findShared fills Shared with the sharing providers that can serve any item class in other trees.
func (q *Query) findShared() {
	for _, place := range q.Sharing {
		var classes []int
		for i := range q.ItemClasses {
			c := &q.ItemClasses[i]
			if !(c.Unsuffixed && c.InTree) && c.HasRoom(place.Node()) && c.admitsAlone(place) {
				classes = append(classes, i)
				c.Shareable = true
			}
		}
		if classes == nil {
			continue
		}
		if q.byAggregate == nil {
			q.byAggregate = map[index.ID][]int{}
		}
		for _, a := range place.Node().Aggregates {
			q.byAggregate[a] = append(q.byAggregate[a], len(q.Shared))
		}
		q.Shared = append(q.Shared, SharingProvider{place, classes})
	}
}
