package numa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Judge adds constraints of the PCI devices that a guest needs near it.
type Judge struct {
	// Accept refuses a guest on these nodes (ascending). If it accepts a set it must accept every larger one. Nil
	// accepts all.
	Accept func(nodes []int) Refusal
	// Far returns the distance of the devices from accepted nodes, 0 for near. Fit returns the nearest of all
	// solutions, the first one of several, but considers at most maxNear solutions. Nil: all are near.
	Far func(nodes []int) int
	// Kind returns a class of a node; Accept and Far treat nodes of one class alike. Nil: each node is a class of its
	// own.
	Kind func(node int) string
}

// maxWays is the largest number of sets of cells that Fit passes to a Judge.
const maxWays = 4096

// maxNear is the largest number of solutions among which Fit selects the nearest.
const maxNear = 64

// Fit finds a different host cell for each cell of the guest, so that all fit and the judge accepts the nodes. Placed
// are in the order of the guest cells. A guest without cells fits anywhere.
//
// If there are more host cells than guest cells, they are tried in Nova's order: by free PCI devices (for a guest
// that requests some: most first; otherwise fewest first), then by CPUs, then by memory, the emptiest first or, with
// Pack, the fullest. Equivalent cells are tried only once.
func Fit(h Host, g Guest, j Judge) ([]Placed, Refusal) {
	if len(g.Cells) == 0 {
		return nil, Refusal{}
	}
	s := search{guest: g, judge: j, cells: h.order(g), limits: h.Limits, failed: map[string]bool{}}
	if refusal := s.measure(); refusal.refused() {
		return nil, refusal
	}
	s.classify()
	if refusal := s.relaxed(); refusal.refused() {
		return nil, refusal
	}
	s.used = make([]bool, len(s.cells))
	if s.place(0) || s.placed != nil {
		return s.placed, Refusal{}
	}
	if len(s.failed) >= maxWays {
		s.best.Nearest = strings.TrimPrefix(s.best.Nearest+fmt.Sprintf("; no solution among the first %d", maxWays), "; ")
	}
	return nil, s.best
}

// Options returns the cells of a host in the order in which Fit tries them, and by guest cell whether it fits on each
// of them; see Place. It refuses a guest whose cells do not fit together. devices is set if the guest requests PCI
// devices.
func Options(h Host, guest []GuestCell, devices bool) ([]Cell, [][]bool, Refusal) {
	g := Guest{Cells: guest, Devices: devices}
	s := search{guest: g, cells: h.order(g), limits: h.Limits}
	refusal := s.measure()
	return s.cells, s.fits, refusal
}

// order sorts the cells in the order in which they are tried.
func (h Host) order(g Guest) []Cell {
	cells := slices.Clone(h.Cells)
	slices.SortFunc(cells, func(a, b Cell) int { return a.ID - b.ID })
	if len(cells) <= len(g.Cells) {
		return cells
	}
	dedicated := slices.ContainsFunc(g.Cells, func(c GuestCell) bool { return len(c.Dedicated) > 0 })
	emptier := func(a, b Cell) int {
		cpus := cmp.Compare(a.Floating, b.Floating)
		if dedicated {
			cpus = cmp.Compare(len(b.free()), len(a.free()))
		}
		return cmp.Or(cpus, cmp.Compare(b.small()-b.UsedMemory, a.small()-a.UsedMemory))
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		devices, fill := h.Free[a.ID]-h.Free[b.ID], emptier(a, b)
		if g.Devices {
			devices = -devices
		}
		if h.Pack {
			fill = -fill
		}
		return cmp.Or(devices, fill)
	})
	return cells
}

type search struct {
	guest  Guest
	judge  Judge
	cells  []Cell
	limits Limits
	fits   [][]bool // by guest cell and host cell
	class  []string // by host cell: cells of one class are equivalent for every guest cell and for the judge

	used   []bool
	at     []int           // by guest cell: its host cell
	failed map[string]bool // by the classes in use: sets without a solution
	best   Refusal         // the judge's nearest miss
	placed []Placed        // the best solution so far
	far    int             // of placed
	ways   int             // number of solutions
}

// measure checks each guest cell on each host cell, and that there are host cells for all guest cells together.
func (s *search) measure() Refusal {
	if len(s.cells) == 0 {
		return Refusal{Reason: "the host reports no NUMA nodes", Miss: checks}
	}
	if len(s.cells) < len(s.guest.Cells) {
		return Refusal{Reason: fmt.Sprintf("fewer than %d NUMA nodes", len(s.guest.Cells)),
			Nearest: fmt.Sprintf("there are %d", len(s.cells)), Miss: checks}
	}
	for i, g := range s.guest.Cells {
		row := make([]bool, len(s.cells))
		var nearest *shortfall
		where, fits := 0, false
		for n, c := range s.cells {
			if !g.admits(c.ID) {
				continue
			}
			lack := c.check(g, s.limits)
			if lack == nil {
				row[n], fits = true, true
			} else if nearest == nil || lack.distance < nearest.distance {
				nearest, where = lack, c.ID
			}
		}
		if !fits && nearest == nil {
			return Refusal{Miss: checks, Reason: fmt.Sprintf("the host has no NUMA node %d, which was chosen for the "+
				"guest's cell %d", g.On.Node, i)}
		}
		if !fits {
			of := ""
			if len(s.guest.Cells) > 1 {
				of = fmt.Sprintf(" for the guest's cell %d", i)
			}
			return Refusal{Reason: fmt.Sprintf("no NUMA node has %s%s", nearest.wants, of),
				Nearest: fmt.Sprintf("node %d %s", where, nearest.has), Miss: nearest.distance}
		}
		s.fits = append(s.fits, row)
	}
	if together := s.matched(0, make([]bool, len(s.cells))); together < len(s.guest.Cells) {
		return Refusal{Reason: fmt.Sprintf("no %d NUMA nodes for the guest's cells together", len(s.guest.Cells)),
			Nearest: fmt.Sprintf("%d of them fit at a time", together),
			Miss:    1 - float64(together)/float64(len(s.guest.Cells))}
	}
	return Refusal{}
}

// matched returns how many of the guest cells from first on can have different cells that are not in use.
func (s *search) matched(first int, used []bool) int {
	taken := make([]int, len(s.cells))
	for n := range taken {
		taken[n] = -1
	}
	var give func(i int, seen []bool) bool
	give = func(i int, seen []bool) bool {
		for n := range s.cells {
			if used[n] || seen[n] || !s.fits[i][n] {
				continue
			}
			seen[n] = true
			if taken[n] < 0 || give(taken[n], seen) {
				taken[n] = i
				return true
			}
		}
		return false
	}
	count := 0
	for i := first; i < len(s.guest.Cells); i++ {
		if give(i, make([]bool, len(s.cells))) {
			count++
		}
	}
	return count
}

// classify finds equivalent cells.
func (s *search) classify() {
	for n, c := range s.cells {
		var b strings.Builder
		for i := range s.guest.Cells {
			if s.fits[i][n] {
				b.WriteByte('+')
			} else {
				b.WriteByte('-')
			}
		}
		switch {
		case s.judge.Accept == nil:
		case s.judge.Kind == nil:
			fmt.Fprintf(&b, " %d", c.ID)
		default:
			b.WriteString(" " + s.judge.Kind(c.ID))
		}
		s.class = append(s.class, b.String())
	}
}

// relaxed passes all cells together to the judge: if it refuses them, it refuses every subset.
func (s *search) relaxed() Refusal {
	if s.judge.Accept == nil {
		return Refusal{}
	}
	var nodes []int
	for n, c := range s.cells {
		if strings.Contains(s.class[n], "+") {
			nodes = append(nodes, c.ID)
		}
	}
	slices.Sort(nodes)
	return s.judge.Accept(nodes)
}

// place finds cells for the guest cells from i on. The result depends only on the classes of the cells in use, so
// each set of classes is tried once.
func (s *search) place(i int) bool {
	if i == len(s.guest.Cells) {
		return s.accepted()
	}
	if s.matched(i, s.used) < len(s.guest.Cells)-i {
		return false
	}
	for n, fits := range s.fits[i] {
		if s.used[n] || !fits {
			continue
		}
		s.used[n], s.at = true, append(s.at, n)
		key := s.key()
		if !s.failed[key] && len(s.failed) < maxWays {
			if s.place(i + 1) {
				return true
			}
			s.failed[key] = true
		}
		s.used[n], s.at = false, s.at[:i]
	}
	return false
}

// key returns the classes of the cells in use, sorted.
func (s *search) key() string {
	var list []string
	for n, used := range s.used {
		if used {
			list = append(list, s.class[n])
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// accepted reports whether the cells in use are as good as possible. A solution is kept if it is the nearest so far.
func (s *search) accepted() bool {
	far := 0
	if s.judge.Accept != nil {
		var nodes []int
		for _, n := range s.at {
			nodes = append(nodes, s.cells[n].ID)
		}
		slices.Sort(nodes)
		if refusal := s.judge.Accept(nodes); refusal.refused() {
			if !s.best.refused() || refusal.Miss < s.best.Miss {
				s.best = refusal
			}
			return false
		}
		if s.judge.Far != nil {
			far = s.judge.Far(nodes)
		}
	}
	if s.placed == nil || far < s.far {
		s.placed, s.far = nil, far
		for i, n := range s.at {
			s.placed = append(s.placed, Place(s.cells[n], s.guest.Cells[i], s.limits))
		}
	}
	s.ways++
	return far == 0 || s.ways == maxNear
}
