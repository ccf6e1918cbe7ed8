package plan

import (
	"encoding/binary"
	"slices"

	"github.com/openberth/berth/numa"
)

// nodeSets searches the set of nodes for the cells of the guest.
type nodeSets struct {
	*search
	cells   []numa.Cell
	fits    [][]*numa.Placed // by guest cell and host cell; nil: it does not fit
	uniform bool             // each guest cell fits on each of the usable nodes
	usable  []int            // host cells on which some guest cell fits
	least   int              // no plan costs less
	fewest  int              // no set of nodes lacks less
	noPlan  bool             // there is none: only the nearest miss is looked for
	class   []int            // by host cell: those of one class are equivalent; nil: not computed yet
	seen    map[string]bool
}

// tryNodes tries all sets of nodes for the cells of the guest, in the order of numa.Options. It returns why the cells
// do not fit, whatever the devices.
func (s *search) tryNodes() numa.Refusal {
	cells, fits, refusal := numa.Options(s.host.Room, s.guest.Cells, s.total > 0)
	if refusal.Reason != "" {
		return refusal
	}
	t := nodeSets{search: s, cells: cells, fits: fits, uniform: true, seen: map[string]bool{}}
	for n := range cells {
		count := 0
		for i := range fits {
			if fits[i][n] != nil {
				count++
			}
		}
		if count > 0 {
			t.usable = append(t.usable, n)
			t.uniform = t.uniform && count == len(fits)
		}
	}
	t.bound()
	t.choose(0, nil)
	return numa.Refusal{}
}

// bound computes what a guest on all usable nodes at once would have.
func (t *nodeSets) bound() {
	costs := t.costs(t.ids(t.usable))
	relaxed := t.solve(t.all(), costs)
	t.least, t.fewest = relaxed.cost, relaxed.lacking()
	t.noPlan = t.fewest > 0
	if !t.noPlan && len(t.sets) > 0 {
		if found := t.assign(costs, -1, t.least); found != nil {
			t.least = found.cost
		} else {
			t.noPlan = true
		}
	}
}

// ids returns the numbers of host cells, ascending.
func (t *nodeSets) ids(chosen []int) (nodes []int) {
	for _, n := range chosen {
		nodes = append(nodes, t.cells[n].ID)
	}
	slices.Sort(nodes)
	return nodes
}

// done reports whether no further set of nodes can be better.
func (t *nodeSets) done() bool {
	if t.noPlan {
		return t.misses > 0 && t.nearest.lacking() <= t.fewest
	}
	return t.best != nil && t.best.cost <= t.least
}

// choose adds the usable nodes from index at on to chosen, in all ways.
func (t *nodeSets) choose(at int, chosen []int) {
	if t.done() {
		return
	}
	if len(chosen) == len(t.fits) {
		t.try(t.ids(chosen), t.place(chosen))
		return
	}
	n := t.usable[at]
	if with := append(slices.Clone(chosen), n); t.placeable(with) == len(with) {
		t.choose(at+1, with)
		if t.done() {
			return
		}
	}
	if key := t.key(at+1, chosen); !t.seen[key] && t.promising(at+1, chosen) {
		t.seen[key] = true
		t.choose(at+1, chosen)
	}
}

// key returns a text that is the same for equivalent choices among the nodes before index at.
func (t *nodeSets) key(at int, chosen []int) string {
	if t.class == nil {
		t.classify()
	}
	list := []int{}
	for _, n := range chosen {
		list = append(list, t.class[n])
	}
	slices.Sort(list)
	b := binary.AppendVarint(nil, int64(at))
	for _, class := range list {
		b = binary.AppendVarint(b, int64(class))
	}
	return string(b)
}

// classify finds equivalent nodes: on which the same cells fit, and near which are the same kinds of devices.
func (t *nodeSets) classify() {
	t.class = make([]int, len(t.cells))
	number := map[string]int{}
	for _, n := range t.usable {
		var b []byte
		for i := range t.fits {
			if t.fits[i][n] != nil {
				b = append(b, '+')
			} else {
				b = append(b, '-')
			}
		}
		node := t.cells[n].ID
		var near []int
		for k, of := range t.kinds {
			if slices.Contains(of.near, node) || slices.Contains(of.beside, node) {
				near = append(near, k)
			}
		}
		text := string(b) + t.describe(near, nil, node, name{noNames, ""})
		if _, known := number[text]; !known {
			number[text] = len(number)
		}
		t.class[n] = number[text]
	}
}

// promising reports whether chosen and some of the usable nodes from index at on can be better than what was found: if
// the cells fit there, and the guest could be on all of them at once.
func (t *nodeSets) promising(at int, chosen []int) bool {
	all := append(slices.Clone(chosen), t.usable[at:]...)
	if len(all) < len(t.fits) || t.placeable(all) < len(t.fits) {
		return false
	}
	relaxed := t.solve(t.all(), t.costs(t.ids(all)))
	lacking := relaxed.lacking()
	if t.best != nil {
		return lacking == 0 && relaxed.cost < t.best.cost
	}
	return lacking == 0 && !t.noPlan || t.misses == 0 || lacking < t.nearest.lacking()
}

// placeable returns how many of these nodes can have a cell of the guest each, at the same time.
func (t *nodeSets) placeable(nodes []int) int {
	if t.uniform {
		return min(len(nodes), len(t.fits))
	}
	taken := make([]int, len(t.fits)) // by guest cell: the index in nodes, plus 1
	var give func(i int, seen []bool) bool
	give = func(i int, seen []bool) bool {
		for g := range t.fits {
			if seen[g] || t.fits[g][nodes[i]] == nil {
				continue
			}
			seen[g] = true
			if taken[g] == 0 || give(taken[g]-1, seen) {
				taken[g] = i + 1
				return true
			}
		}
		return false
	}
	count := 0
	for i := range nodes {
		if give(i, make([]bool, len(t.fits))) {
			count++
		}
	}
	return count
}

// place places the cells of the guest on nodes where they fit together: each cell on the first one possible.
func (t *nodeSets) place(nodes []int) (placed []numa.Placed) {
	rest := nodeSets{fits: t.fits, uniform: t.uniform}
	free := slices.Clone(nodes)
	for _, fits := range t.fits {
		rest.fits = rest.fits[1:]
		for i, n := range free {
			others := slices.Delete(slices.Clone(free), i, i+1)
			if fits[n] != nil && rest.placeable(others) == len(others) {
				placed, free = append(placed, *fits[n]), others
				break
			}
		}
	}
	return placed
}
