package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
)

// minimal finds clauses that no host meets together, and of which none can be left out; or says that it did not find out of
// all whether they can.
func (x *explainer) minimal() (clauses []string, rough bool) {
	keep, rough := x.contradiction()
	return x.pieces.words(keep), rough
}

// contradiction gathers what the hosts cannot meet, each for itself, and leaves out one piece after the other, as long as no
// host meets what is left. It looks at hosts again for that, but not more than it took to look at all of them once.
func (x *explainer) contradiction() (keep set, rough bool) {
	m := x.pieces
	keep = make(set, m.count)
	if x.outside > 0 {
		keep.add(x.cores[0])
	}
	for i := range x.classes {
		keep.add(x.cores[x.classes[i].core])
	}
	left := x.spent/3 + smallWork
	needed := map[string]bool{} // clauses that cannot be left out of what is kept now: nor can others just like them
	for _, at := range m.order() {
		like := m.likeness(at)
		if !keep[at] || needed[like] {
			continue
		}
		x.spent = 0
		if less := m.drop(keep, at); x.feasible(less, left) {
			needed[like] = like != ""
		} else {
			keep = less
			clear(needed)
		}
		if left -= x.spent; left < 0 {
			return keep, true
		}
	}
	return keep, false
}

// smallWork is how many providers an explanation may look at again, however few hosts it was about.
const smallWork = 1_000

func (s set) add(o set) {
	for i, v := range o {
		s[i] = s[i] || v
	}
}

// within says whether all pieces are in the other set.
func (s set) within(o set) bool {
	for i, v := range s {
		if v && !o[i] {
			return false
		}
	}
	return true
}

// intern gives the position of a marker's core among those that are known. Of hosts with one core, what the first meets is kept.
func (x *explainer) intern(why *marker) int {
	at := slices.IndexFunc(x.cores, func(o set) bool { return slices.Equal(o, why.core) })
	if at < 0 {
		at = len(x.cores)
		x.cores = append(x.cores, slices.Clone(why.core))
		x.learn(why)
	}
	return at
}

// feasible says whether some host meets these pieces, or that it was not found out with so much work. For each class of hosts
// it remembers pieces that they cannot meet together, and does not look again as long as these are all kept.
func (x *explainer) feasible(keep set, work int) bool {
	refuted := make([]bool, len(x.cores), 2*len(x.cores))
	open := x.outside > 0 && !x.cores[0].within(keep)
	for i, core := range x.cores {
		refuted[i] = core.within(keep)
	}
	open = open || slices.ContainsFunc(x.classes, func(st standing) bool { return !refuted[st.core] })
	if !open {
		return false
	}
	switch {
	case x.certain(keep):
		return true
	case x.nowhere(keep):
		return false
	}
	ask, items := x.pieces.with(keep)
	h := newHost(compileWith(x.snapshot, x.plan.sharing, ask, x.stop))
	if h.nothing != "" {
		return false
	}
	try := func(at int) bool {
		st := &x.classes[at]
		if st.core < len(refuted) && refuted[st.core] {
			return false
		}
		x.spent += len(st.trees[0].Nodes)
		if x.spent > work || h.fill(st.trees[0]) {
			return true
		}
		why := x.marker(items, keep, h)
		x.refute(why, h)
		st.core = x.intern(why)
		return false
	}
	if slices.ContainsFunc(x.order, try) {
		return true
	}
	if x.outside == 0 || refuted[0] {
		return false
	}
	return x.elsewhere(h.plan, try)
}

// elsewhere tries the hosts that the narrowing has left out: class by class, and of those that are not known only such as the index
// does not exclude for this plan.
func (x *explainer) elsewhere(p *plan, try func(class int) bool) bool {
	for at := len(x.order); at < len(x.classes); at++ {
		if try(at) {
			return true
		}
	}
	fresh := func(t *index.Tree) bool {
		x.spent++
		_, known := x.class(t)
		return !known && try(x.enter(t, standing{trees: [mostMisses]*index.Tree{t}}))
	}
	few, size := p.narrowest(true)
	n := 0
	for t := range few {
		if fresh(t) {
			return true
		}
		if n++; n == x.few && size > x.few {
			return x.anywhere(fresh)
		}
	}
	return false
}

// anywhere tries one host of each shape.
func (x *explainer) anywhere(try func(t *index.Tree) bool) bool {
	for _, root := range x.plan.trunks {
		if try(x.snapshot.Lookup(root)) {
			return true
		}
	}
	for t := range x.snapshot.Shapes() {
		if x.plan.named(t) {
			for o := range x.snapshot.Alike(t).All() {
				if t = o; !x.plan.named(t) {
					break
				}
			}
		}
		if try(t) {
			return true
		}
	}
	return false
}

// marker builds a core: pieces as far as they are kept.
type marker struct {
	*pieces
	of   []int // by item of the plan in question: the form
	keep set   // nil: all
	core set

	host *host // that does not meet the core; nil: none has been looked at
	fed  []int // kinds of its plan: all their items find room there together, if it were not for their conditions
	lone int   // a kind of its plan whose one item may find room there, if it were not for its conditions; or -1
	one  bool  // it meets the core less all that any one form asks
}

// marker begins a core. It is good until the next call.
func (x *explainer) marker(of []int, keep set, h *host) *marker {
	if x.why.core == nil {
		x.why.core = make(set, x.pieces.count)
	}
	clear(x.why.core)
	x.why = marker{pieces: x.pieces, of: of, keep: keep, core: x.why.core, host: h, lone: -1}
	return &x.why
}

func (m *marker) mark(pieces ...int) {
	for _, p := range pieces {
		m.core[p] = m.core[p] || m.keep == nil || m.keep[p]
	}
}

// amounts marks what a kind asks. Groups without resources are nothing without their conditions.
func (m *marker) amounts(p *plan, kind int) {
	k, last := &p.kinds[kind], -1
	for _, i := range k.items {
		if m.of[i] == last {
			continue
		}
		last = m.of[i]
		f := &m.forms[last]
		m.mark(f.amount(k.class))
		if len(f.group.Resources) == 0 {
			m.mark(f.conditions(nil)...)
		}
	}
}

// whole marks what a kind asks with its conditions.
func (m *marker) whole(p *plan, kind int) {
	m.amounts(p, kind)
	m.conditions(p, kind, func(f *form) []int { return f.conditions(nil) })
}

// conditions marks some pieces of each form of a kind.
func (m *marker) conditions(p *plan, kind int, which func(*form) []int) {
	last := -1
	for _, i := range p.kinds[kind].items {
		if m.of[i] != last {
			last = m.of[i]
			m.mark(which(&m.forms[last])...)
		}
	}
}

// refute marks pieces that a host which has just failed them cannot meet together.
func (x *explainer) refute(why *marker, h *host) {
	switch {
	case h.nothing != "":
		copy(why.core, why.keep)
	case !h.anchors(h.tree):
		x.unrooted(why, h.plan, h.tree)
	case h.stuck >= 0:
		x.blame(why, h)
	default:
		around := x.around(h.tree)
		for i := range h.kinds {
			k := &h.kinds[i]
			if !slices.ContainsFunc(around, func(at index.Place) bool { return k.vacant(at) && k.admits(h.tree, at) }) {
				x.excuse(why, h.plan, i, h.tree, around, (*kind).vacant)
				return
			}
		}
		copy(why.core, why.keep)
	}
}

// unrooted marks one condition that the root of a tree does not meet.
func (x *explainer) unrooted(why *marker, p *plan, t *index.Tree) {
	top := t.Top()
	required, banned := why.required, why.banned
	if why.keep != nil {
		required = slices.DeleteFunc(slices.Clone(required), func(at int) bool { return !why.keep[at] })
		banned = slices.DeleteFunc(slices.Clone(banned), func(at int) bool { return !why.keep[at] })
	}
	for i, trait := range p.required {
		if top == nil || !top.HasTrait(trait) {
			why.mark(required[i])
			return
		}
	}
	for i, trait := range p.banned {
		if top == nil || top.HasTrait(trait) {
			why.mark(banned[i])
			return
		}
	}
}

// excuse marks why a kind has nowhere to go around a tree: what it asks, if there is no room for that whatever its conditions; that
// and one condition, if no provider that is able to give it meets this one; or all.
func (x *explainer) excuse(why *marker, p *plan, kind int, t *index.Tree, around []index.Place, able func(*kind, index.Place) bool) {
	k := &p.kinds[kind]
	why.amounts(p, kind)
	if k.terms() == 0 || k.scant(around) {
		return
	}
	if len(k.items) == 1 {
		why.lone = kind
	}
	for c := range k.terms() {
		one := k.term(c)
		if k.terms() == 1 || !slices.ContainsFunc(around, func(at index.Place) bool { return able(k, at) && one.admits(t, at) }) {
			why.conditions(p, kind, func(f *form) []int { return why.term(f, k, c) })
			return
		}
	}
	why.whole(p, kind)
}

// scant says whether there is no room for all items of a kind, whatever its conditions.
func (k *kind) scant(around []index.Place) bool {
	if len(k.needs) == 0 {
		return len(around) == 0
	}
	left := len(k.items)
	for _, at := range around {
		if k.fits(at.Node()) {
			left -= k.times(at.Node(), left)
		}
		if left <= 0 {
			return false
		}
	}
	return true
}

// times is how many items of a kind a provider that has room for one can take, if nothing else is there; at most so many.
func (k *kind) times(n *index.Node, most int) int {
	for _, need := range k.needs {
		most = min(most, n.Stock(need.number).Room/need.amount)
	}
	return most
}

// term is the piece of a form that is one of its kind's conditions.
func (m *marker) term(f *form, k *kind, c int) []int {
	var kept []int
	required := f.required
	if len(k.required) == 0 {
		required = nil // those of the unsuffixed group's classes are met between its providers
	}
	for _, list := range [][]int{required, f.banned, f.within, f.without} {
		for _, piece := range list {
			if m.keep == nil || m.keep[piece] {
				kept = append(kept, piece)
			}
		}
	}
	if c < len(kept) {
		return kept[c : c+1]
	}
	return []int{f.tree}
}

// terms counts the conditions of a kind.
func (k *kind) terms() int {
	n := len(k.required) + len(k.banned) + len(k.within) + len(k.without)
	if k.inTree {
		n++
	}
	return n
}

// term is the kind with one of its conditions alone.
func (k *kind) term(c int) kind {
	one := kind{spread: k.spread, needs: k.needs}
	if c < len(k.required) {
		one.required = k.required[c : c+1]
		return one
	}
	if c -= len(k.required); c < len(k.banned) {
		one.banned = k.banned[c : c+1]
		return one
	}
	if c -= len(k.banned); c < len(k.within) {
		one.within = k.within[c : c+1]
		return one
	}
	if c -= len(k.within); c < len(k.without) {
		one.without = k.without[c : c+1]
		return one
	}
	one.inTree, one.tree = k.inTree, k.tree
	return one
}

// blame marks why the part of a surveyed host that is stuck has no solution.
func (x *explainer) blame(why *marker, h *host) {
	s := &h.plan.parts[h.stuck]
	kinds := s.kinds
	if f, counted := h.parts[h.stuck].(*flow); counted {
		kinds = f.rivals()
		why.one = f.missing == 1
		mark := why.whole
		if f.scarce(kinds, x.around(h.tree)) {
			mark = why.amounts
		} else if f.alike(kinds) {
			why.fed = kinds
		}
		for _, k := range kinds {
			mark(h.plan, k)
		}
		if h.isolate {
			why.mark(why.policy)
		}
		return
	}
	for _, c := range s.classes {
		asking, short := h.scarce(s, c, x.around(h.tree))
		if short {
			for _, k := range asking {
				why.amounts(h.plan, k)
			}
			return
		}
	}
	for _, k := range kinds {
		why.whole(h.plan, k)
	}
	if h.isolate {
		why.mark(why.policy)
	}
	if len(s.clauses) > 0 {
		why.mark(why.subtrees...)
	}
}

// rivals are the kinds that compete for too few spots, after solve has failed.
func (f *flow) rivals() []int {
	var out []int
	for row, seen := range f.seen {
		if seen {
			out = append(out, f.section.kinds[row])
		}
	}
	return out
}

// alike says whether these kinds ask the same amounts, of something.
func (f *flow) alike(kinds []int) bool {
	return len(f.plan.kinds[kinds[0]].needs) > 0 && !slices.ContainsFunc(kinds, func(k int) bool { return !slices.Equal(f.plan.kinds[k].needs, f.plan.kinds[kinds[0]].needs) })
}

// scarce says whether there are too few providers for these kinds whatever their traits, aggregates and trees.
func (f *flow) scarce(kinds []int, around []index.Place) bool {
	asked, room := 0, 0
	for _, k := range kinds {
		asked += len(f.plan.kinds[k].items)
	}
	for _, at := range around {
		most := 0
		for _, i := range kinds {
			k := &f.plan.kinds[i]
			if !k.vacant(at) {
				continue
			}
			n := asked
			for _, need := range k.needs {
				n = min(n, at.Node().Stock(need.number).Room/need.amount)
			}
			if f.plan.isolate && !k.spread {
				n = 1
			}
			most = max(most, n)
		}
		room += most
	}
	return room < asked
}

// scarce says whether there are too few units of a class for all kinds of a section that ask it, whatever their conditions.
func (h *host) scarce(s *section, class int, around []index.Place) (asking []int, short bool) {
	asked, free := 0, 0
	for _, k := range s.kinds {
		if n := h.kinds[k].amount(class); n > 0 {
			asking = append(asking, k)
			asked += n * len(h.kinds[k].items)
		}
	}
	for _, at := range around {
		if st := at.Node().Stock(h.plan.classes[class]); st != nil {
			free += max(st.Room, 0)
		}
	}
	return asking, asked > free
}
