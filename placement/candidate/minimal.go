package candidate

import (
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// pieces is an ask taken apart into clauses that can be left out one by one: what equal groups ask, each of their
// conditions, and each condition on the whole. A set of pieces is a list of booleans, one per piece.
type pieces struct {
	ask      resource.Ask
	count    int
	forms    []form
	required []int // by position in the ask's list: the piece
	banned   []int
	subtrees []int
	policy   int
}

// form is the pieces of groups that ask the same: theirs are left out together. The classes of an unsuffixed group
// are pieces of their own, but not when it requires traits: to leave one out would also leave out the provider that
// has them.
type form struct {
	group    resource.Group
	suffixes []string
	amounts  map[resource.Class]int // by class if each can be left out alone, else all together under ""
	required []int
	banned   []int
	within   []int
	without  []int
	tree     int
}

func takeApart(ask resource.Ask) *pieces {
	m := &pieces{ask: ask}
	for _, g := range ask.Groups {
		at := slices.IndexFunc(m.forms, func(f form) bool { return sameGroup(f.group, g) })
		if at >= 0 {
			m.forms[at].suffixes = append(m.forms[at].suffixes, g.Suffix)
			continue
		}
		f := form{group: g, suffixes: []string{g.Suffix}, amounts: map[resource.Class]int{}}
		if g.Suffix == "" && len(g.Required) == 0 {
			for _, c := range g.Resources.Sorted() {
				f.amounts[c] = m.piece()
			}
		} else {
			f.amounts[""] = m.piece()
		}
		f.required, f.banned = m.each(len(g.Required)), m.each(len(g.Forbidden))
		f.within, f.without = m.each(len(g.MemberOf)), m.each(len(g.NotMemberOf))
		f.tree = m.piece()
		m.forms = append(m.forms, f)
	}
	m.required, m.banned = m.each(len(ask.RootRequired)), m.each(len(ask.RootForbidden))
	m.subtrees, m.policy = m.each(len(ask.SameSubtree)), m.piece()
	return m
}

func (m *pieces) piece() int { m.count++; return m.count - 1 }

func (m *pieces) each(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = m.piece()
	}
	return out
}

// sameGroup says whether two groups ask the same, whatever their suffixes.
func sameGroup(a, b resource.Group) bool {
	traits := func(a, b [][]resource.Trait) bool { return slices.EqualFunc(a, b, slices.Equal[[]resource.Trait]) }
	members := func(a, b [][]resource.AggregateID) bool {
		return slices.EqualFunc(a, b, slices.Equal[[]resource.AggregateID])
	}
	return (a.Suffix == "") == (b.Suffix == "") && a.Resources.String() == b.Resources.String() &&
		traits(a.Required, b.Required) && slices.Equal(a.Forbidden, b.Forbidden) && members(a.MemberOf, b.MemberOf) &&
		slices.Equal(a.NotMemberOf, b.NotMemberOf) && a.InTree == b.InTree
}

// filter keeps the members of a list whose pieces are kept.
func filter[T any](list []T, of []int, keep []bool) []T {
	var out []T
	for i, v := range list {
		if keep[of[i]] {
			out = append(out, v)
		}
	}
	return out
}

// with is the ask of these pieces alone. A same_subtree clause goes with any of its groups: the others might lie
// under that one.
func (m *pieces) with(keep []bool) resource.Ask {
	out := resource.Ask{
		RootRequired:  filter(m.ask.RootRequired, m.required, keep),
		RootForbidden: filter(m.ask.RootForbidden, m.banned, keep),
		SameSubtree:   filter(m.ask.SameSubtree, m.subtrees, keep),
		GroupPolicy:   resource.PolicyNone,
	}
	if keep[m.policy] {
		out.GroupPolicy = m.ask.GroupPolicy
	}
	for _, g := range m.ask.Groups {
		if g, any := m.form(g.Suffix).with(g.Suffix, keep); any {
			out.Groups = append(out.Groups, g)
		}
	}
	out.SameSubtree = slices.DeleteFunc(out.SameSubtree, func(clause []string) bool {
		return slices.ContainsFunc(m.ask.Groups, func(g resource.Group) bool {
			return g.Suffix != "" && slices.Contains(clause, g.Suffix) && !keep[m.form(g.Suffix).amount("")]
		})
	})
	return out
}

func (m *pieces) form(suffix string) *form {
	at := slices.IndexFunc(m.forms, func(f form) bool { return slices.Contains(f.suffixes, suffix) })
	return &m.forms[at]
}

// with is the group less what is not kept, and whether anything is left of it.
func (f *form) with(suffix string, keep []bool) (resource.Group, bool) {
	g := f.group
	g.Suffix, g.Resources = suffix, resource.Amounts{}
	for c, n := range f.group.Resources {
		if keep[f.amount(c)] {
			g.Resources[c] = n
		}
	}
	g.Required, g.Forbidden = filter(g.Required, f.required, keep), filter(g.Forbidden, f.banned, keep)
	g.MemberOf, g.NotMemberOf = filter(g.MemberOf, f.within, keep), filter(g.NotMemberOf, f.without, keep)
	if !keep[f.tree] {
		g.InTree = ""
	}
	if suffix == "" {
		return g, len(g.Resources) > 0
	}
	return g, keep[f.amounts[""]]
}

// amount is the piece that says how much of a class.
func (f *form) amount(c resource.Class) int {
	if at, ok := f.amounts[c]; ok {
		return at
	}
	return f.amounts[""]
}

// conditions lists the pieces of a form that are not amounts.
func (f *form) conditions() []int {
	out := slices.Concat(f.required, f.banned, f.within, f.without)
	if f.group.InTree != "" {
		out = append(out, f.tree)
	}
	return out
}

// order lists all pieces in the order in which they are tried to be left out: whole groups before their conditions. A
// group without resources is nothing without its conditions: they are not tried.
func (m *pieces) order() []int {
	var amounts, conditions []int
	for i := range m.forms {
		for _, c := range slices.Sorted(maps.Keys(m.forms[i].amounts)) {
			amounts = append(amounts, m.forms[i].amounts[c])
		}
		if len(m.forms[i].group.Resources) > 0 {
			conditions = append(conditions, m.forms[i].conditions()...)
		}
	}
	return slices.Concat(amounts, m.subtrees, m.policies(), m.required, m.banned, conditions)
}

// policies is the piece of group_policy if it asks anything.
func (m *pieces) policies() []int {
	if m.ask.GroupPolicy == resource.PolicyIsolate {
		return []int{m.policy}
	}
	return nil
}

// minimal finds clauses that no host meets together, and of which none can be left out.
func (x *explainer) minimal() []string {
	m, keep := x.contradiction()
	return m.words(keep)
}

// contradiction leaves out one piece of the ask after the other, as long as no host meets what is left.
func (x *explainer) contradiction() (*pieces, []bool) {
	m := takeApart(x.ask)
	keep := slices.Repeat([]bool{true}, m.count)
	type failure struct {
		stage int
		alone bool
	}
	cores := map[failure][]bool{}
	for i := range x.hosts {
		st := &x.hosts[i]
		f := failure{st.stage, st.alone}
		if cores[f] == nil {
			cores[f] = x.stageCore(m, st, keep)
		}
		st.core = cores[f]
	}
	for _, at := range m.order() {
		keep[at] = false
		if x.feasible(m, keep) {
			keep[at] = true
		}
	}
	return m, keep
}

// feasible says whether some host meets these pieces. For each host it remembers pieces that the host cannot meet
// together, and does not look again as long as they are all kept.
func (x *explainer) feasible(m *pieces, keep []bool) bool {
	h := newHost(compile(x.snapshot, m.with(keep), x.stop))
	for i := range x.hosts {
		st := &x.hosts[i]
		if within(st.core, keep) {
			continue
		}
		if h.fill(st.tree) {
			return true
		}
		st.core = x.core(m, h, keep)
	}
	return false
}

func within(a, b []bool) bool {
	for i, v := range a {
		if v && !b[i] {
			return false
		}
	}
	return true
}

// marker builds a core: pieces as far as they are kept.
type marker struct {
	*pieces
	keep, core []bool
}

func (m *pieces) marker(keep []bool) marker { return marker{m, keep, make([]bool, m.count)} }

func (m marker) mark(pieces ...int) {
	for _, p := range pieces {
		m.core[p] = m.core[p] || m.keep[p]
	}
}

// amounts marks what a kind asks. Its groups may differ in words, such as two names for one tree.
func (m marker) amounts(p *plan, k *kind) {
	for _, i := range k.items {
		m.mark(m.form(p.items[i].suffix).amount(k.class()))
	}
}

// whole marks what a kind asks with its conditions.
func (m marker) whole(p *plan, k *kind) {
	m.amounts(p, k)
	for _, i := range k.items {
		m.mark(m.form(p.items[i].suffix).conditions()...)
	}
}

// stageCore gives pieces that a host cannot meet together, from the stage that it fails.
func (x *explainer) stageCore(m *pieces, st *standing, keep []bool) []bool {
	c, s := m.marker(keep), x.stages[st.stage]
	switch s.rule {
	case rooted:
		c.mark(slices.Concat(m.required, m.banned)...)
	case offered:
		i := slices.IndexFunc(x.plan.kinds, func(k kind) bool { return k.amount(s.at) > 0 })
		c.amounts(x.plan, &x.plan.kinds[i])
	case qualified, free:
		if c.amounts(x.plan, &x.plan.kinds[s.at]); !st.alone {
			c.whole(x.plan, &x.plan.kinds[s.at])
		}
	case together:
		for _, k := range x.loose.plan.parts[s.at].kinds {
			c.whole(x.loose.plan, &x.loose.kinds[k])
		}
	default:
		copy(c.core, keep)
	}
	return c.core
}

// core gives pieces that a host which has just failed them cannot meet together.
func (x *explainer) core(m *pieces, h *host, keep []bool) []bool {
	c := m.marker(keep)
	switch {
	case h.nothing != "":
		copy(c.core, keep)
	case !h.anchors(h.tree):
		c.mark(slices.Concat(m.required, m.banned)...)
	case h.stuck < 0:
		x.starved(c, h)
	default:
		s := &h.plan.parts[h.stuck]
		for _, k := range s.kinds {
			c.whole(h.plan, &h.kinds[k])
		}
		if h.isolate {
			c.mark(m.policy)
		}
		if len(s.clauses) > 0 {
			c.mark(m.subtrees...)
		}
	}
	return c.core
}

// starved marks a kind that has nowhere to go on a host: its amounts alone, if its conditions do not matter.
func (x *explainer) starved(c marker, h *host) {
	around := x.around(h.tree)
	for i := range h.kinds {
		k := &h.kinds[i]
		fits := func(at index.Place) bool { return k.fits(at.Node()) }
		switch {
		case !slices.ContainsFunc(around, fits):
			c.amounts(h.plan, k)
			return
		case !slices.ContainsFunc(around, func(at index.Place) bool { return fits(at) && k.admits(h.tree, at) }):
			c.whole(h.plan, k)
			return
		}
	}
	copy(c.core, c.keep)
}

// class is the first class that a kind asks, or nothing.
func (k *kind) class() resource.Class {
	for _, c := range k.amounts.Sorted() {
		return c
	}
	return ""
}

// words tells the pieces kept.
func (m *pieces) words(keep []bool) []string {
	var out []string
	for i := range m.forms {
		f := &m.forms[i]
		g, any := f.with(f.suffixes[0], keep)
		if !any {
			continue
		}
		k := kind{group: g, amounts: g.Resources, inTree: g.InTree != "", required: make([][]index.No, len(g.Required))}
		out = append(out, times(len(f.suffixes), k.named()))
	}
	for _, clause := range m.with(keep).SameSubtree {
		out = append(out, "same_subtree="+strings.Join(clause, ","))
	}
	if keep[m.policy] && m.policies() != nil {
		out = append(out, "group_policy="+string(m.ask.GroupPolicy))
	}
	for _, t := range filter(m.ask.RootRequired, m.required, keep) {
		out = append(out, "root_required="+string(t))
	}
	for _, t := range filter(m.ask.RootForbidden, m.banned, keep) {
		out = append(out, "root_required=!"+string(t))
	}
	return out
}
