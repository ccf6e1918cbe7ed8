package index

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/resource"
)

// Sum is what providers have of a class, and what of it is used.
type Sum struct{ Capacity, Used int }

// Sums are sums by class.
type Sums map[resource.Class]Sum

// Sums returns the sums of all providers, and those of the trees whose root is in an aggregate, of the most aggregates
// with the largest number of trees.
func (s *Snapshot) Sums(most int) (all Sums, of map[resource.AggregateID]Sums) {
	kept, byID := s.largestAggregates(most), map[ID][]Sum{}
	total := make([]Sum, len(s.classes.names))
	for _, id := range kept {
		byID[id] = make([]Sum, len(s.classes.names))
	}
	for t := range s.Trees() {
		lists := [][]Sum{total}
		for _, id := range t.Top().Aggregates {
			if list := byID[id]; list != nil {
				lists = append(lists, list)
			}
		}
		for i := range t.Nodes {
			for _, st := range t.Nodes[i].Inventories {
				for _, list := range lists {
					list[st.Class].Capacity += st.Inventory.Capacity()
					list[st.Class].Used += st.Used
				}
			}
		}
	}
	of = map[resource.AggregateID]Sums{}
	for _, id := range kept {
		of[s.aggregates.names[id]] = s.named(byID[id])
	}
	return s.named(total), of
}

// named returns the sums that are not zero, by the names of their classes.
func (s *Snapshot) named(list []Sum) Sums {
	out := Sums{}
	for class, sum := range list {
		if sum != (Sum{}) {
			out[s.classes.names[class]] = sum
		}
	}
	return out
}

// largestAggregates returns the most aggregates with the largest number of roots.
func (s *Snapshot) largestAggregates(most int) []ID {
	count := make([]int, len(s.aggregates.names))
	var ids []ID
	for t := range s.Trees() {
		for _, id := range t.Top().Aggregates {
			if count[id]++; count[id] == 1 {
				ids = append(ids, id)
			}
		}
	}
	slices.SortFunc(ids, func(a, b ID) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(s.aggregates.names[a], s.aggregates.names[b]))
	})
	return ids[:min(most, len(ids))]
}

// Stock is what all providers have of a class: how much in all, of which Reserved cannot be allocated and Used is. Of
// an inventory with an allocation ratio it is what can be allocated.
type Stock struct{ Total, Reserved, Used int }

// maxStock bounds what one inventory counts, so that sums do not overflow: an allocation ratio may be of any size.
const maxStock = 1 << 44

// Stocks returns the stock of each class of all providers, and of the trees whose root is in an aggregate, of the most
// aggregates with the largest number of trees. Used and Reserved together are more than Total only if consumers have
// more than there is: what is used of a reserved unit, as of a device that is used up, counts as used only.
func (s *Snapshot) Stocks(most int) (all map[resource.Class]Stock,
	of map[resource.AggregateID]map[resource.Class]Stock) {
	kept, byID := s.largestAggregates(most), map[ID][]Stock{}
	total := make([]Stock, len(s.classes.names))
	for _, id := range kept {
		byID[id] = make([]Stock, len(s.classes.names))
	}
	for t := range s.Trees() {
		lists := [][]Stock{total}
		for _, id := range t.Top().Aggregates {
			if list := byID[id]; list != nil {
				lists = append(lists, list)
			}
		}
		for i := range t.Nodes {
			for j := range t.Nodes[i].Inventories {
				st := &t.Nodes[i].Inventories[j]
				for _, list := range lists {
					list[st.Class].add(st.Inventory, st.Used)
				}
			}
		}
	}
	of = map[resource.AggregateID]map[resource.Class]Stock{}
	for _, id := range kept {
		of[s.aggregates.names[id]] = s.stocksByName(byID[id])
	}
	return s.stocksByName(total), of
}

// add adds an inventory.
func (s *Stock) add(inventory resource.Inventory, used int) {
	whole := inventory
	whole.Reserved = 0
	total := min(max(whole.Capacity(), 0), maxStock)
	s.Total += total
	s.Reserved += min(max(total-inventory.Capacity(), 0), max(total-used, 0))
	s.Used += used
}

// stocksByName returns the stocks that are not zero, by the names of their classes.
func (s *Snapshot) stocksByName(list []Stock) map[resource.Class]Stock {
	out := map[resource.Class]Stock{}
	for class, sum := range list {
		if sum != (Stock{}) {
			out[s.classes.names[class]] = sum
		}
	}
	return out
}
