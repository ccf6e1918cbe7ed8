package plan

import (
	"slices"

	"github.com/openberth/berth/numa"
)

// nodeSets searches the set of nodes for the cells of the guest.
type nodeSets struct {
	*search
	cells   []numa.Cell
	fits    [][]bool // by guest cell and host cell
	uniform bool     // each guest cell fits on each of the usable nodes
	usable  []int    // host cells on which some guest cell fits
	least   int      // no plan costs less
	fewest  int      // no set of nodes lacks less
	noPlan  bool     // there is none: only the nearest miss is looked for
	profiles
	seen map[string]bool // choices, see profiles.key
}

// tryNodes tries all sets of nodes for the cells of the guest. cells and fits are those of numa.Options.
func (s *search) tryNodes(cells []numa.Cell, fits [][]bool) {
	t := nodeSets{search: s, cells: cells, fits: fits, uniform: true, seen: map[string]bool{}}
	for n := range cells {
		count := 0
		for i := range fits {
			if fits[i][n] {
				count++
			}
		}
		if count > 0 {
			t.usable = append(t.usable, n)
			t.uniform = t.uniform && count == len(fits)
		}
	}
	relaxed := t.bound()
	if t.spent() {
		return
	}
	if t.noPlan {
		if s.nowhere() != nil {
			return
		}
		t.budget = reasons()
	}
	if t.choose(0, nil); t.noPlan && t.misses == 0 {
		t.miss(relaxed, t.ids(t.usable), len(t.sets)-1)
	}
}

// bound computes what a guest on all usable nodes at once would have, and returns its devices.
func (t *nodeSets) bound() (relaxed assignment) {
	costs := t.costs(t.ids(t.usable))
	relaxed = t.solve(t.all(), costs)
	t.least, t.fewest = relaxed.cost, relaxed.lacking()
	t.noPlan = t.fewest > 0
	if !t.noPlan && len(t.sets) > 0 {
		if found := t.assign(costs, -1, t.least); found != nil {
			t.least = found.cost
		} else {
			t.noPlan = true
		}
	}
	return relaxed
}

// ids returns the numbers of host cells, ascending.
func (t *nodeSets) ids(chosen []int) (nodes []int) {
	for _, n := range chosen {
		nodes = append(nodes, t.cells[n].ID)
	}
	slices.Sort(nodes)
	return nodes
}

// done reports whether no further set of nodes can be better, or the budget is spent.
func (t *nodeSets) done() bool {
	if t.spent() {
		return true
	}
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
	t.spend(50 * len(t.usable))
	if len(chosen) == len(t.fits) {
		if t.try(t.ids(chosen)) {
			t.placed = t.place(chosen)
		}
		return
	}
	n := t.usable[at]
	if with := append(slices.Clone(chosen), n); t.placeable(with) == len(with) && !t.tried(at+1, with) {
		t.choose(at+1, with)
		if t.done() {
			return
		}
	}
	if t.of == nil {
		t.profiles = t.profile(t.cells, t.fits)
		t.guess()
	}
	if !t.tried(at+1, chosen) && t.promising(at+1, chosen) {
		t.choose(at+1, chosen)
	}
}

// tried reports whether an equivalent choice among the nodes before index at was tried, and remembers this one.
func (t *nodeSets) tried(at int, chosen []int) bool {
	if t.of == nil {
		return false // this is the first set of nodes
	}
	key := t.key(at, chosen)
	if t.seen[key] {
		return true
	}
	t.seen[key] = true
	return false
}

// promising reports whether chosen and some of the usable nodes from index at on can be better than what was found: if
// the cells fit there, and the guest could be on all of them at once.
func (t *nodeSets) promising(at int, chosen []int) bool {
	all := append(slices.Clone(chosen), t.usable[at:]...)
	if len(all) < len(t.fits) || t.placeable(all) < len(t.fits) {
		return false
	}
	if lacking, cost := t.atLeast(chosen, t.usable[at:], len(t.fits)); !t.useful(lacking, cost) {
		return false
	}
	relaxed := t.solve(t.all(), t.costs(t.ids(all)))
	return t.useful(relaxed.lacking(), relaxed.cost)
}

// useful reports whether a guest that lacks a number of devices, or has all at a cost, is better than what was found.
func (t *nodeSets) useful(lacking, cost int) bool {
	if t.limit >= 0 {
		return lacking == 0 && cost < t.limit
	}
	return lacking == 0 && !t.noPlan || t.misses == 0 || lacking < t.nearest.lacking()
}

// guess lowers the limit to the cost of a set of nodes that is probably good: those with the most devices.
func (t *nodeSets) guess() {
	if t.noPlan {
		return
	}
	order := slices.Clone(t.usable)
	slices.SortStableFunc(order, func(a, b int) int { return t.of[b].sum - t.of[a].sum })
	var chosen []int
	for _, n := range order {
		if with := append(slices.Clone(chosen), n); t.placeable(with) == len(with) {
			chosen = with
		}
	}
	costs := t.costs(t.ids(chosen))
	relaxed := t.solve(t.all(), costs)
	if relaxed.lacking() > 0 {
		return
	}
	cost := relaxed.cost
	if len(t.sets) > 0 {
		found := t.assign(costs, t.limit, cost)
		if found == nil {
			return
		}
		cost = found.cost
	}
	if t.limit < 0 || cost < t.limit {
		t.limit = cost + 1 // another set of nodes with this cost may come first
	}
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
			if seen[g] || !t.fits[g][nodes[i]] {
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
	for i, fits := range t.fits {
		rest.fits = rest.fits[1:]
		for at, n := range free {
			others := slices.Delete(slices.Clone(free), at, at+1)
			if fits[n] && rest.placeable(others) == len(others) {
				placed = append(placed, numa.Place(t.cells[n], t.guest.Cells[i], t.host.Room.Limits))
				free = others
				break
			}
		}
	}
	return placed
}
