package plan

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// search is the search of a plan.
type search struct {
	host     Host
	guest    Guest
	requests []request
	sets     []set
	kinds    []kind
	room     []int // by kind: how many devices
	cards    []card
	*budget
	total int // how many devices the guest needs
	scale int // the cost of one step in distance, above all Later together

	best   *solution
	nodes  []int
	placed []numa.Placed
	limit  int // the cost from which on a solution is of no use, or -1

	misses  int
	nearest assignment // of the misses: the one with the most devices
	missed  []int      // its nodes
	unequal int        // the set that does not agree on these, or -1
}

// costs returns the cost of each kind for each request of a guest on nodes. One device of a later rank costs more than
// all others can gain, so as many as possible have the first rank, then the second.
func (s *search) costs(nodes []int) [][]int {
	steps := []int{numa.Local: 0, numa.Fair: s.total + 1, numa.Distant: s.total + 2}
	out := matrix(len(s.requests), len(s.kinds))
	for r, request := range s.requests {
		for i, k := range s.kinds {
			out[r][i] = never
			if !k.fits[r] {
				continue
			}
			if rank := k.rank(request.Policy, nodes); rank != never {
				out[r][i] = steps[rank]*s.scale + k.later
			}
		}
	}
	return out
}

// request is one request of the guest, or several that no device can distinguish.
type request struct {
	Request
	of   []int // the requests of the guest
	sets []int // the set that it is in; empty: none
}

// set is a set of the guest whose requests are numbers of search.requests.
type set struct {
	Set
	index  int     // in Guest.Sets
	values []value // of all kinds
	any    []bool  // by kind: it has a value
}

// value is a value of a family.
type value struct {
	name  string
	has   []bool // by kind
	kinds []int  // those that have it
}

// kind is a number of free devices that the guest cannot distinguish.
type kind struct {
	fits         []bool // by request
	near, beside []int
	values       [][]string // by set
	card         int
	whole        bool
	later        int
	list         []int // indexes of Host.Devices
}

// name is what kinds can have in common: the value of a set, or a card.
type name struct {
	set   int // or cardNames
	value string
}

// The numbers of names that are not values of a set.
const (
	cardNames = -1
	noNames   = -2
)

// names returns the values and the card of a kind.
func (k kind) names() (list []name) {
	for n, values := range k.values {
		for _, v := range values {
			list = append(list, name{n, v})
		}
	}
	if k.card != NoCard {
		list = append(list, name{cardNames, fmt.Sprint(k.card)})
	}
	return list
}

// rank is Rank for devices of this kind.
func (k kind) rank(policy pci.NUMAPolicy, nodes []int) int {
	return Rank(policy, k.near, k.beside, nodes)
}

// Rank returns how near a device is to a guest on nodes, or a negative number if the policy does not allow it; see
// numa.Rank. near and beside are Device.Near and Device.Beside. The policy has no effect on a guest without nodes.
func Rank(policy pci.NUMAPolicy, near, beside, nodes []int) int {
	on := func(list []int) bool {
		return slices.ContainsFunc(list, func(n int) bool { return slices.Contains(nodes, n) })
	}
	switch {
	case len(nodes) == 0 || on(near):
		return numa.Local
	case policy == pci.Required:
		return never
	case policy == pci.Socket:
		if on(beside) {
			return numa.Fair
		}
		return never
	case len(near) == 0:
		return numa.Fair
	case policy == pci.Preferred:
		return numa.Distant
	}
	return never
}

// group is a number of devices of one request that are of the same kinds.
type group struct {
	request int
	count   int
	among   []bool // by kind: those that it may use; nil: all
	value   string // of the devices of a set, if it is chosen
}

// solution is a complete assignment for a guest.
type solution struct {
	groups []group
	assignment
}

// all returns one group for each request: what the guest needs if no devices must agree.
func (s *search) all() (list []group) {
	for r, of := range s.requests {
		list = append(list, group{request: r, count: of.Count})
	}
	return list
}

// solve returns the best assignment for groups. costs are by request and kind.
func (s *search) solve(groups []group, costs [][]int) assignment {
	return s.transport(groups, costs).solve()
}

// transport returns the transport of groups.
func (s *search) transport(groups []group, costs [][]int) transport {
	t := transport{room: s.room, cards: s.cards, budget: s.budget}
	for _, g := range groups {
		t.need = append(t.need, g.count)
		row := costs[g.request]
		if g.among != nil {
			row = slices.Clone(row)
			for k, may := range g.among {
				if !may {
					row[k] = never
				}
			}
		}
		t.cost = append(t.cost, row)
	}
	return t
}
