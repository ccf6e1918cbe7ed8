package candidate

import "slices"

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
	})
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
