package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// search is the search of a plan.
type search struct {
	host  Host
	guest Guest
	kinds []kind
	room  []int // by kind: how many devices
	total int   // how many devices the guest needs
	scale int   // the cost of one step in distance, above all Later together

	anyNode map[int]string // a name for all nodes

	least int // no plan costs less
	nodes []int
	at    []numa.Placed
	best  *solution

	// the nearest miss
	missing assignment
	missed  []int // its nodes
	unequal int   // the set that does not agree, or -1
	misses  int
}

// prepare computes the kinds and the costs.
func (s *search) prepare() {
	s.kinds, s.unequal = kindsOf(s.host, s.guest), -1
	most := 0
	for _, k := range s.kinds {
		s.room = append(s.room, len(k.list))
		most = max(most, k.Later)
	}
	for _, r := range s.guest.Requests {
		s.total += r.Count
	}
	s.scale = s.total*most + 1
	s.anyNode = map[int]string{}
	for _, c := range s.host.Room.Cells {
		s.anyNode[c.ID] = "*"
	}
}

// costs returns the cost of each kind for each request of a guest on nodes. One device of a later rank costs more than
// all others can gain, so as many as possible have the first rank, then the second.
func (s *search) costs(nodes []int) [][]int {
	steps := []int{numa.Local: 0, numa.Fair: s.total + 1, numa.Distant: s.total + 2}
	out := make([][]int, len(s.guest.Requests))
	for r, request := range s.guest.Requests {
		for _, k := range s.kinds {
			cost, rank := never, k.rank(request.Policy, nodes)
			if k.Fits[r] && rank != never {
				cost = steps[rank]*s.scale + k.Later
			}
			out[r] = append(out[r], cost)
		}
	}
	return out
}

// limit returns the cost from which on a solution is of no use.
func (s *search) limit() int {
	if s.best == nil {
		return -1
	}
	return s.best.cost
}

// try looks for devices for a guest on nodes, and keeps the result if it is the best.
func (s *search) try(nodes []int, at []numa.Placed) {
	costs := s.costs(nodes)
	relaxed := s.transport(s.groups(0), costs).solve()
	if relaxed.lacking() > 0 {
		s.miss(relaxed, nodes, -1)
		return
	}
	if s.best != nil && relaxed.cost >= s.best.cost {
		return
	}
	found := s.assignSets(costs, s.limit(), relaxed.cost)
	if found != nil {
		s.best, s.nodes, s.at = found, nodes, at
	} else if s.best == nil {
		s.miss(relaxed, nodes, s.firstUnequal(costs))
	}
}

// firstUnequal returns a set that cannot agree even alone, or -1.
func (s *search) firstUnequal(costs [][]int) int {
	for n := range s.guest.Sets {
		alone := search{host: s.host, kinds: s.kinds, room: s.room, total: s.total, scale: s.scale, anyNode: s.anyNode}
		alone.guest = s.guest
		alone.guest.Sets = []Set{s.guest.Sets[n]}
		if alone.assignSets(costs, -1, 0) == nil {
			return n
		}
	}
	return len(s.guest.Sets) - 1
}

// miss keeps the nearest miss: the nodes where most devices are.
func (s *search) miss(a assignment, nodes []int, set int) {
	if s.misses++; s.misses == 1 || a.lacking() < s.missing.lacking() {
		s.missing, s.missed, s.unequal = a, slices.Clone(nodes), set
	}
}

// tryNodes tries all sets of nodes for the cells of the guest, in the order of numa.Options. Of nodes that are
// equivalent the first ones are used. It returns why the cells do not fit, whatever the devices.
func (s *search) tryNodes() numa.Refusal {
	cells, fits, refusal := numa.Options(s.host.Room, s.guest.Cells, s.total > 0)
	if refusal.Reason != "" {
		return refusal
	}
	var all []int
	classes := make([]string, len(cells))
	for n, c := range cells {
		var b strings.Builder
		usable := false
		for i := range fits {
			fmt.Fprint(&b, fits[i][n] != nil)
			usable = usable || fits[i][n] != nil
		}
		if !usable {
			continue
		}
		all = append(all, n)
		classes[n] = b.String() + "\n" + s.devicesNear(c.ID)
	}
	s.least = s.lowest(cells, all)
	t := nodeSets{search: s, cells: cells, fits: fits, classes: classes, usable: all}
	t.choose(0, nil, map[string]bool{})
	return numa.Refusal{}
}

// lowest returns a cost that no plan is below.
func (s *search) lowest(cells []numa.Cell, usable []int) int {
	var nodes []int
	for _, n := range usable {
		nodes = append(nodes, cells[n].ID)
	}
	a := s.transport(s.groups(0), s.costs(nodes)).solve()
	if a.lacking() > 0 {
		return 0
	}
	return a.cost
}

// devicesNear describes the kinds near a node. Nodes with the same text can be exchanged: a kind near this node alone
// has no node in its text.
func (s *search) devicesNear(node int) string {
	var list []string
	for _, k := range s.kinds {
		if !slices.Contains(k.Near, node) && !slices.Contains(k.Beside, node) {
			continue
		}
		beside := k.Beside
		if !s.besideCounts() {
			k.Beside = nil
		}
		rename := map[int]string{}
		if len(k.Near) == 1 && (len(beside) <= 1 || !s.besideCounts()) {
			rename[node] = "*"
		}
		list = append(list, fmt.Sprint(len(k.list), " ", k.describe(s.guest, fmt.Sprint(k.Card, k.Whole), rename, "")))
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// besideCounts reports whether some request has the policy socket.
func (s *search) besideCounts() bool {
	return slices.ContainsFunc(s.guest.Requests, func(r Request) bool { return r.Policy == pci.Socket })
}

// nodeSets enumerates sets of nodes.
type nodeSets struct {
	search  *search
	cells   []numa.Cell
	fits    [][]*numa.Placed // by guest cell and host cell; nil: it does not fit
	classes []string         // by host cell
	usable  []int            // host cells on which some guest cell fits
}

// choose adds one of the usable nodes from index at on to chosen, in all ways. passed has the classes of which a node
// was left out: the later ones would give nothing new.
func (t *nodeSets) choose(at int, chosen []int, passed map[string]bool) {
	s, need := t.search, len(t.fits)
	if s.best != nil && s.best.cost <= s.least {
		return
	}
	if len(chosen) == need {
		t.leaf(chosen)
		return
	}
	if len(t.usable)-at < need-len(chosen) {
		return
	}
	n := t.usable[at]
	class := t.classes[n]
	if !passed[class] {
		t.choose(at+1, append(slices.Clone(chosen), n), passed)
		passed[class] = true
		t.choose(at+1, chosen, passed)
		delete(passed, class)
		return
	}
	t.choose(at+1, chosen, passed)
}

// leaf places the cells of the guest on the chosen nodes, if they fit there, and tries the devices.
func (t *nodeSets) leaf(chosen []int) {
	var placed []numa.Placed
	free := slices.Clone(chosen)
	for i := range t.fits {
		at := slices.IndexFunc(free, func(n int) bool {
			return t.fits[i][n] != nil && t.matched(i+1, slices.DeleteFunc(slices.Clone(free), func(o int) bool { return o == n }))
		})
		if at < 0 {
			return
		}
		placed = append(placed, *t.fits[i][free[at]])
		free = slices.Delete(free, at, at+1)
	}
	var nodes []int
	for _, n := range chosen {
		nodes = append(nodes, t.cells[n].ID)
	}
	slices.Sort(nodes)
	t.search.try(nodes, placed)
}

// matched reports whether each guest cell from first on can have a node of its own among free.
func (t *nodeSets) matched(first int, free []int) bool {
	taken := map[int]int{} // by node: the guest cell
	var give func(i int, seen map[int]bool) bool
	give = func(i int, seen map[int]bool) bool {
		for _, n := range free {
			if seen[n] || t.fits[i][n] == nil {
				continue
			}
			seen[n] = true
			if other, is := taken[n]; !is || give(other, seen) {
				taken[n] = i
				return true
			}
		}
		return false
	}
	for i := first; i < len(t.fits); i++ {
		if !give(i, map[int]bool{}) {
			return false
		}
	}
	return true
}

// plan returns the best solution.
func (s *search) plan() Plan {
	p := Plan{Placed: s.at, Devices: make([][]int, len(s.guest.Requests))}
	used := make([]int, len(s.kinds))
	for g, of := range s.best.groups {
		policy := s.guest.Requests[of.request].Policy
		for k, n := range s.best.use[g] {
			list := s.kinds[k].list[used[k] : used[k]+n]
			p.Devices[of.request] = append(p.Devices[of.request], list...)
			used[k] += n
			p.Far += n * s.kinds[k].rank(policy, s.nodes)
		}
	}
	return p
}

// refusal returns the nearest miss. If the devices are too few wherever the guest is, it names no nodes.
func (s *search) refusal() *Refusal {
	anywhere := &search{host: s.host, guest: s.guest}
	anywhere.prepare()
	anywhere.try(nil, nil)
	of := s
	if anywhere.best == nil {
		of = anywhere
	}
	lacking := slices.IndexFunc(of.missing.left, func(n int) bool { return n > 0 })
	out := &Refusal{Wanted: s.total, Served: s.total - of.missing.lacking(), Nodes: of.missed, Set: of.unequal}
	if lacking >= 0 {
		out.Request = s.groups(0)[lacking].request
	} else if out.Set >= 0 {
		out.Request = s.guest.Sets[out.Set].Requests[0]
	}
	return out
}
