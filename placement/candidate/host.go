package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
)

// sharer is a provider that lends its inventory to other trees.
type sharer struct {
	index.Place
	kinds []int // what it can serve in another tree, as far as that tree does not matter
}

// lend finds the sharing providers that can serve any kind in other trees.
func (p *plan) lend() {
	p.lenders = map[index.No][]int{}
	for _, place := range p.sharing {
		var kinds []int
		for i := range p.kinds {
			if k := &p.kinds[i]; !(k.spread && k.inTree) && k.fits(place.Node()) && k.suits(place) {
				kinds = append(kinds, i)
			}
		}
		if kinds == nil {
			continue
		}
		for _, a := range place.Node().Aggregates {
			p.lenders[a] = append(p.lenders[a], len(p.sharers))
		}
		p.sharers = append(p.sharers, sharer{place, kinds})
	}
}

// fits says whether the node has room for one item of the kind.
func (k *kind) fits(n *index.Node) bool {
	for _, need := range k.needs {
		if st := n.Stock(need.number); st == nil || !st.Fits(need.amount) {
			return false
		}
	}
	return true
}

// suits says whether a provider has the traits, aggregates and tree of the kind by itself.
func (k *kind) suits(at index.Place) bool {
	n := at.Node()
	if k.inTree && len(k.needs) > 0 && at.Tree.Root != k.tree {
		return false
	}
	return k.qualifies(n) && inAll(n, k.within) && !inAny(n, k.without)
}

// suitsTree is suits for the unsuffixed group in its own tree: what the root is a member of holds for the whole tree.
func (k *kind) suitsTree(at index.Place) bool {
	n, top := at.Node(), at.Tree.Top()
	if k.inTree && at.Tree.Root != k.tree || !k.qualifies(n) {
		return false
	}
	member := inAll(n, k.within) || top != nil && inAll(top, k.within)
	return member && !inAny(n, k.without) && !inAny(top, k.without)
}

func (k *kind) qualifies(n *index.Node) bool {
	for _, set := range k.required {
		if !slices.ContainsFunc(set, n.HasTrait) {
			return false
		}
	}
	return !slices.ContainsFunc(k.banned, n.HasTrait)
}

func inAll(n *index.Node, sets [][]index.No) bool {
	for _, set := range sets {
		if !slices.ContainsFunc(set, n.In) {
			return false
		}
	}
	return true
}

func inAny(n *index.Node, set []index.No) bool { return n != nil && slices.ContainsFunc(set, n.In) }

// anchors says whether a tree may be the anchor of candidates: root_required.
func (p *plan) anchors(t *index.Tree) bool {
	if len(p.required)+len(p.banned) == 0 {
		return true
	}
	top := t.Top()
	if top == nil {
		return false
	}
	for _, trait := range p.required {
		if !top.HasTrait(trait) {
			return false
		}
	}
	return !slices.ContainsFunc(p.banned, top.HasTrait)
}

// host is the plan on one tree: what can go where.
type host struct {
	*plan
	tree    *index.Tree
	spots   []spot
	room    []int     // by spot and class: the largest amount that can be had
	domains [][]int32 // by kind: the spots that can take an item of it when nothing else is there, ascending
	lent    []int     // positions in plan.sharers: those connected with the tree
	parts   []part
	counted []bool // by spot
	looked  bool   // the survey has looked at each provider: a class was not missing from the start
	stuck   int    // the position of the part that has no solution, or -1
}

// spot is a provider that can take an item: of the tree itself, in tree order, then sharing ones of other trees.
type spot struct {
	index.Place
	foreign bool
}

// part decides about one section on one host. It keeps a witness, a way to place all its items, so that there is a
// solution at any time between a solve and the next that says true.
type part interface {
	reset(h *host)           // starts afresh on what the host has
	solve() bool             // finds a first witness
	force(item, at int) bool // fixes an item on a spot of its domain if that leaves a solution
	release(item, at int)    // undoes a force; the last one first
}

// newHost makes an empty host, to be filled with one tree after the other.
func newHost(p *plan) *host {
	h := &host{plan: p, domains: make([][]int32, len(p.kinds))}
	for i := range p.parts {
		if p.parts[i].exact {
			h.parts = append(h.parts, newFlow(p, &p.parts[i]))
		} else {
			h.parts = append(h.parts, newSearch(p, &p.parts[i]))
		}
	}
	return h
}

// fill puts the plan on a tree and says whether there is any candidate.
func (h *host) fill(t *index.Tree) bool {
	h.stuck = -1
	h.tree = t
	return h.nothing == "" && h.anchors(t) && h.survey(t) && h.solve()
}

// named says whether in_tree means this very tree, so that others of its shape do not stand for it.
func (p *plan) named(t *index.Tree) bool {
	return len(p.trunks) > 0 && slices.Contains(p.trunks, t.Root)
}

// try is fill, but looks at one tree of each shape only as long as there is nothing to find.
func (h *host) try(t *index.Tree) bool {
	if h.dead[t.Shape] && !h.named(t) {
		return false
	}
	if h.fill(t) {
		return true
	}
	if !h.over && !h.named(t) {
		h.dead[t.Shape] = true
	}
	return false
}

// solve says whether all parts of a surveyed host have a solution.
func (h *host) solve() bool {
	h.stuck = -1
	for i, part := range h.parts {
		if !h.plan.parts[i].exact && h.short(&h.plan.parts[i]) {
			h.stuck = i
			return false
		}
		part.reset(h)
		if !part.solve() {
			h.stuck = i
			return false
		}
	}
	return true
}

// short says that a section cannot have a solution since there are too few units of a class, or too few providers to isolate
// its groups on. Most of what does not fit is found out so, before a search makes itself ready.
func (h *host) short(s *section) bool {
	h.counted = zeros(h.counted, len(h.spots))
	single, free := 0, 0
	for _, k := range s.kinds {
		if h.isolate && !h.kinds[k].spread {
			single += len(h.kinds[k].items)
			for _, at := range h.domains[k] {
				if !h.counted[at] {
					h.counted[at] = true
					free++
				}
			}
		}
	}
	return single > free || h.lack(s) > 0
}

// survey finds the spots and the domains; it says whether no domain is empty.
func (h *host) survey(t *index.Tree) bool {
	h.tree, h.spots, h.room = t, h.spots[:0], h.room[:0]
	for k := range h.domains {
		h.domains[k] = h.domains[k][:0]
	}
	h.borrow()
	h.looked = false
	if len(h.lent) == 0 && slices.ContainsFunc(h.classes, func(c index.No) bool { return !t.Has(c) }) {
		return false
	}
	h.looked = true
	for i := range t.Nodes {
		at, taken := index.Place{Tree: t, At: i}, false
		for k := range h.kinds {
			kind := &h.kinds[k]
			if kind.fits(at.Node()) && (kind.spread && kind.suitsTree(at) || !kind.spread && kind.suits(at)) {
				h.admit(k, spot{Place: at}, &taken)
			}
		}
	}
	for _, l := range h.lent {
		taken := false
		for _, k := range h.sharers[l].kinds {
			if !(h.kinds[k].spread && inAny(t.Top(), h.kinds[k].without)) {
				h.admit(k, spot{h.sharers[l].Place, true}, &taken)
			}
		}
	}
	return !slices.ContainsFunc(h.domains, func(d []int32) bool { return len(d) == 0 })
}

// borrow finds the sharing providers of other trees that are connected with this one through an aggregate.
func (h *host) borrow() {
	h.lent = h.lent[:0]
	if len(h.sharers) == 0 {
		return
	}
	for _, a := range h.tree.Aggregates {
		for _, l := range h.lenders[a] {
			if h.sharers[l].Tree != h.tree {
				h.lent = append(h.lent, l)
			}
		}
	}
	slices.Sort(h.lent)
	h.lent = slices.Compact(h.lent)
}

// connected says whether a provider has an aggregate in common with any provider of the tree.
func connected(n *index.Node, t *index.Tree) bool { return slices.ContainsFunc(t.Aggregates, n.In) }

// admit enters a spot into the domain of a kind; the first time, into the spots too.
func (h *host) admit(k int, s spot, taken *bool) {
	if !*taken {
		*taken = true
		h.spots = append(h.spots, s)
		for _, class := range h.classes {
			room := 0
			if st := s.Node().Stock(class); st != nil {
				room = max(st.Room, 0)
			}
			h.room = append(h.room, room)
		}
	}
	h.domains[k] = append(h.domains[k], int32(len(h.spots)-1))
}

// left is how much of a class can be had on a spot.
func (h *host) left(at, class int) int { return h.room[at*len(h.classes)+class] }
