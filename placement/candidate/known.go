package candidate

import (
	"slices"

	"github.com/openberth/berth/placement/index"
)

// What a host meets shows on the way when one finds out what it does not meet. Most clauses of a contradiction are found to be
// needed by that alone, without a host being looked at again.

// mostMet is how many sets of pieces are remembered.
const mostMet = 64

// learn remembers what the host of a core meets.
func (x *explainer) learn(why *marker) {
	if why.host == nil || len(x.met)+len(x.tight) >= mostMet {
		return
	}
	h := why.host
	if why.one && x.distinct(why) {
		of := *why
		of.core = slices.Clone(why.core)
		of.roots()
		x.tight = append(x.tight, of.core)
	}
	fed := why.fed
	if why.lone >= 0 {
		if k := &h.kinds[why.lone]; len(k.needs) > 0 && slices.ContainsFunc(x.around(h.tree), k.vacant) {
			fed = []int{why.lone}
		}
	}
	if fed == nil || !why.complete(fed) {
		return
	}
	of := *why
	of.core = make(set, x.pieces.count)
	of.core[of.policy] = h.isolate || why.lone >= 0
	of.roots()
	for _, k := range fed {
		of.amounts(h.plan, k)
	}
	x.met = append(x.met, of.core)
}

// ease remembers that a host meets all but what the last rules of the funnel ask, from this one on.
func (x *explainer) ease(r rule) {
	if r < isolated || x.eased[r] {
		return
	}
	x.eased[r] = true
	met := make(set, x.pieces.count)
	for at := range met {
		met[at] = true
	}
	met[x.pieces.policy] = r == subtree
	for _, at := range x.pieces.subtrees {
		met[at] = false
	}
	x.met = append(x.met, met)
}

// roots marks what is asked of the root.
func (m *marker) roots() {
	m.mark(m.required...)
	m.mark(m.banned...)
}

// distinct says whether each kind of the core is all groups of one form.
func (x *explainer) distinct(why *marker) bool {
	kinds := why.host.parts[why.host.stuck].(*flow).rivals()
	for _, k := range kinds {
		items := why.host.kinds[k].items
		if slices.ContainsFunc(items, func(i int) bool { return why.of[i] != why.of[items[0]] }) || !why.complete([]int{k}) {
			return false
		}
	}
	return true
}

// complete says whether kinds are all that their amounts stand for: all groups of a form, all classes that go together.
func (m *marker) complete(kinds []int) bool {
	last := -1
	for _, k := range kinds {
		for _, i := range m.host.kinds[k].items {
			form := m.of[i]
			if form == last || m.forms[form].classes != nil {
				continue
			}
			last = form
			for o, of := range m.of {
				if of == form && !slices.Contains(kinds, m.host.items[o].kind) {
					return false
				}
			}
		}
	}
	return true
}

// certain says whether some host is known to meet these pieces. Who asks nothing is content with any.
func (x *explainer) certain(keep set) bool {
	return !slices.Contains(keep, true) || slices.ContainsFunc(x.met, keep.within) || slices.ContainsFunc(x.tight, func(t set) bool {
		return slices.ContainsFunc(x.pieces.asking, func(at int) bool { return t[at] && !keep[at] }) && keep.within(t)
	}) || x.anyone(keep)
}

// nowhere says whether no provider of the whole fleet has room for what one of these pieces asks, as the index knows.
func (x *explainer) nowhere(keep set) bool {
	if x.gone == nil {
		x.gone = make(set, x.pieces.count)
		for i := range x.plan.kinds {
			k := &x.plan.kinds[i]
			full := func(n need) bool { return x.snapshot.Roomy(n.number, n.amount).Len(1) == 0 }
			if slices.ContainsFunc(k.needs, full) {
				x.gone[x.pieces.amount(k)] = true
			}
		}
	}
	for at, gone := range x.gone {
		if gone && keep[at] {
			return true
		}
	}
	return false
}

// amount is the piece that says how much the first item of a kind asks.
func (m *pieces) amount(k *kind) int { return m.forms[m.items[k.items[0]]].amount(k.class) }

// anyone says whether some provider meets these pieces, when they are no more than what one item asks. One that has much room
// is looked at.
func (x *explainer) anyone(keep set) bool {
	at := slices.Index(keep, true)
	if slices.Contains(keep[at+1:], true) {
		return false
	}
	for i := range x.plan.kinds {
		k := &x.plan.kinds[i]
		if x.pieces.amount(k) != at {
			continue
		}
		form := x.pieces.items[k.items[0]]
		if f := &x.pieces.forms[form]; f.times > 1 || len(k.needs) != 1 || f.classes == nil && len(f.group.Resources) > 1 {
			return false
		}
		for t := range x.snapshot.Roomy(k.needs[0].number, k.needs[0].amount).All() {
			return slices.ContainsFunc(t.Nodes, func(n index.Node) bool { return k.fits(&n) })
		}
	}
	return false
}

// drop leaves out one piece, and those that say nothing without it.
func (m *pieces) drop(keep set, at int) set {
	out := slices.Clone(keep)
	out[at] = false
	if !slices.Contains(m.asking, at) {
		return out
	}
	for i := range m.forms {
		f := &m.forms[i]
		if slices.ContainsFunc(f.asking, func(at int) bool { return out[at] }) {
			continue
		}
		for _, list := range [][]int{f.required, f.banned, f.within, f.without, {f.tree}} {
			for _, piece := range list {
				out[piece] = false
			}
		}
		m.disband(out, i)
	}
	return out
}

// disband leaves out the same_subtree clauses of a form's groups.
func (m *pieces) disband(keep set, form int) {
	if !m.forms[form].suffixed {
		return
	}
	for n, g := range m.ask.Groups {
		for i, clause := range m.ask.SameSubtree {
			if m.groups[n] == form && keep[m.subtrees[i]] && slices.Contains(clause, g.Suffix) {
				keep[m.subtrees[i]] = false
			}
		}
	}
}
