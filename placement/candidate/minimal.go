package candidate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// pieces is an ask taken apart into clauses that can be left out one by one: what equal groups ask, each of their
// conditions, and each condition on the whole.
type pieces struct {
	ask      resource.Ask
	count    int
	forms    []form
	groups   []int // by position in the ask's groups: the form
	items    []int // by item of a plan for the whole ask: the form
	required []int // by position in the ask's list: the piece
	banned   []int
	subtrees []int
	policy   int
	asking   []int // the pieces that are amounts
}

// set is some pieces: whether it has each.
type set []bool

// form is the pieces of groups that ask the same: theirs are left out together. The classes of an unsuffixed group
// are pieces of their own, but not when it requires traits: to leave one out would also leave out the provider that
// has them.
type form struct {
	group    resource.Group
	suffixed bool
	times    int              // how many groups ask it
	classes  []resource.Class // those of which each can be left out alone; none: all go together
	asking   []int            // the pieces of their amounts, or the one of all
	required []int
	banned   []int
	within   []int
	without  []int
	tree     int
}

func takeApart(ask resource.Ask, p *plan) *pieces {
	m := &pieces{ask: ask, groups: make([]int, len(ask.Groups))}
	hints, item := slices.Repeat([]int{-1}, len(p.kinds)), 0
	for n := range ask.Groups {
		g := &ask.Groups[n]
		at, kind := -1, -1
		if g.Suffix == "" {
			item += len(g.Resources)
		} else {
			kind = p.items[item].kind
			item++
			at = m.find(g, hints[kind])
		}
		if at < 0 {
			at = len(m.forms)
			f := form{group: *g, suffixed: g.Suffix != ""}
			if g.Suffix == "" && len(g.Required) == 0 {
				f.classes = g.Resources.Sorted()
			}
			f.asking = m.each(max(len(f.classes), 1))
			m.asking = append(m.asking, f.asking...)
			f.required, f.banned = m.each(len(g.Required)), m.each(len(g.Forbidden))
			f.within, f.without = m.each(len(g.MemberOf)), m.each(len(g.NotMemberOf))
			f.tree = m.piece()
			m.forms = append(m.forms, f)
		}
		m.forms[at].times++
		m.groups[n] = at
		if kind >= 0 {
			hints[kind] = at
		}
	}
	m.required, m.banned = m.each(len(ask.RootRequired)), m.each(len(ask.RootForbidden))
	m.subtrees, m.policy = m.each(len(ask.SameSubtree)), m.piece()
	m.items = formsOf(ask, m.groups)
	return m
}

// find gives the position of the form of a suffixed group, or -1. Groups of one kind are almost always of one form, too; and groups
// of two kinds are not of one form, unless they differ in their same_subtree clauses.
func (m *pieces) find(g *resource.Group, hint int) int {
	if hint < 0 && len(m.ask.SameSubtree) == 0 {
		return -1
	}
	if hint >= 0 && sameGroup(&m.forms[hint].group, g) {
		return hint
	}
	return slices.IndexFunc(m.forms, func(f form) bool { return f.suffixed && sameGroup(&f.group, g) })
}

// formsOf gives the form of each item of an ask, of whose groups the forms are known.
func formsOf(ask resource.Ask, groups []int) []int {
	out := make([]int, 0, len(groups)+len(groups)/8+2)
	for n, g := range ask.Groups {
		out = append(out, groups[n])
		for extra := 1; g.Suffix == "" && extra < len(g.Resources); extra++ {
			out = append(out, groups[n])
		}
	}
	return out
}

func (m *pieces) piece() int { m.count++; return m.count - 1 }

func (m *pieces) each(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = m.piece()
	}
	return out
}

// filter keeps the members of a list whose pieces are kept.
func filter[T any](list []T, of []int, keep set) []T {
	if !slices.ContainsFunc(of, func(at int) bool { return !keep[at] }) {
		return slices.Clip(list)
	}
	var out []T
	for i, v := range list {
		if keep[of[i]] {
			out = append(out, v)
		}
	}
	return out
}

// with is the ask of these pieces alone, and the form of each of its items. A same_subtree clause goes with any of its
// groups: the others might lie under that one.
func (m *pieces) with(keep set) (resource.Ask, []int) {
	out := resource.Ask{
		RootRequired:  filter(m.ask.RootRequired, m.required, keep),
		RootForbidden: filter(m.ask.RootForbidden, m.banned, keep),
		SameSubtree:   slices.Clone(filter(m.ask.SameSubtree, m.subtrees, keep)),
		GroupPolicy:   resource.PolicyNone,
	}
	if keep[m.policy] {
		out.GroupPolicy = m.ask.GroupPolicy
	}
	less, any := make([]resource.Group, len(m.forms)), make([]bool, len(m.forms))
	for i := range m.forms {
		less[i], any[i] = m.forms[i].with(keep)
	}
	var groups []int
	for n, g := range m.ask.Groups {
		of := m.groups[n]
		if any[of] {
			less[of].Suffix = g.Suffix
			out.Groups, groups = append(out.Groups, less[of]), append(groups, of)
			continue
		}
		out.SameSubtree = slices.DeleteFunc(out.SameSubtree, func(clause []string) bool {
			return g.Suffix != "" && slices.Contains(clause, g.Suffix)
		})
	}
	return out, formsOf(out, groups)
}

// with is the group less what is not kept, and whether anything is left of it.
func (f *form) with(keep set) (resource.Group, bool) {
	g := f.group
	if f.suffixed && !keep[f.asking[0]] {
		return g, false
	}
	g.Resources = resource.Amounts{}
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
	return g, f.suffixed || len(g.Resources) > 0
}

// amount is the piece that says how much of a class.
func (f *form) amount(c resource.Class) int {
	return f.asking[max(slices.Index(f.classes, c), 0)]
}

// conditions adds the pieces of a form that are not amounts to a list.
func (f *form) conditions(to []int) []int {
	to = append(append(append(append(to, f.required...), f.banned...), f.within...), f.without...)
	if f.group.InTree != "" {
		to = append(to, f.tree)
	}
	return to
}

// order lists all pieces in the order in which they are tried to be left out: whole groups before their conditions. A
// group without resources is nothing without its conditions: they are not tried.
func (m *pieces) order() []int {
	var conditions []int
	for i := range m.forms {
		if f := &m.forms[i]; len(f.group.Resources) > 0 {
			conditions = f.conditions(conditions)
		}
	}
	return slices.Concat(m.asking, m.subtrees, m.policies(), m.required, m.banned, conditions)
}

// likeness is the same for same_subtree clauses that could change places: of groups that ask the same, and that no other
// clause is about. It is empty for all other pieces.
func (m *pieces) likeness(piece int) string {
	at := slices.Index(m.subtrees, piece)
	if at < 0 {
		return ""
	}
	var forms []int
	for n, g := range m.ask.Groups {
		if g.Suffix == "" || !slices.Contains(m.ask.SameSubtree[at], g.Suffix) {
			continue
		}
		for other, clause := range m.ask.SameSubtree {
			if other != at && slices.Contains(clause, g.Suffix) {
				return ""
			}
		}
		forms = append(forms, m.groups[n])
	}
	slices.Sort(forms)
	return fmt.Sprint(forms)
}

// policies is the piece of group_policy if it asks anything.
func (m *pieces) policies() []int {
	if m.ask.GroupPolicy == resource.PolicyIsolate {
		return []int{m.policy}
	}
	return nil
}

// words tells the pieces kept.
func (m *pieces) words(keep set) []string {
	var out []string
	for i := range m.forms {
		f := &m.forms[i]
		g, any := f.with(keep)
		if !any {
			continue
		}
		k := kind{group: g, amounts: g.Resources, inTree: g.InTree != "", required: make([][]index.No, len(g.Required))}
		out = append(out, times(f.times, k.named()))
	}
	if len(m.ask.SameSubtree) > 0 {
		ask, _ := m.with(keep)
		for _, clause := range ask.SameSubtree {
			out = append(out, "same_subtree="+strings.Join(clause, ","))
		}
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
