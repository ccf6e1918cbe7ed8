package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// clauses is an ask divided into clauses that can be left out one by one: the amounts of equal groups, each of their
// conditions, and each condition on the whole. A clause is a number.
type clauses struct {
	ask       resource.Ask
	count     int
	shapes    []groupShape
	groups    []int // by position in ask.Groups: the shape
	required  []int // by position in ask.RootRequired: the clause
	forbidden []int
	subtrees  []int
	policy    int
}

// groupShape is what equal groups ask; their clauses are left out together. The classes of an unsuffixed group are
// clauses of their own, except when it requires traits: its providers must have the traits together, so leaving out a
// class would also leave out the provider that has them.
type groupShape struct {
	group       resource.Group
	itemClass   int              // in the relaxed query; -1: of an unsuffixed group
	times       int              // how many groups have the shape
	classes     []resource.Class // those of which each can be left out alone; none: all are left out together
	amounts     []int            // by position in classes the clause, or the one clause of all
	required    []int
	forbidden   []int
	memberOf    []int
	notMemberOf []int
	inTree      int
}

// set is a set of clauses: whether it contains each.
type set []bool

func (s set) add(clauses ...int) {
	for _, c := range clauses {
		s[c] = true
	}
}

func (s set) addAll(o set) {
	for c, in := range o {
		s[c] = s[c] || in
	}
}

// within reports whether the other set contains all clauses of this one.
func (s set) within(o set) bool {
	for c, in := range s {
		if in && !o[c] {
			return false
		}
	}
	return true
}

// clausesOf divides the ask of a relaxed query and the conditions that it leaves out.
func clausesOf(ask resource.Ask, relaxed *match.Query) *clauses {
	c := &clauses{ask: ask, groups: make([]int, len(ask.Groups))}
	itemClass := slices.Repeat([]int{-1}, len(ask.Groups))
	for _, item := range relaxed.Items {
		if item.Suffix != "" {
			itemClass[item.Group] = item.Class
		}
	}
	for n := range ask.Groups {
		g := &ask.Groups[n]
		at := slices.IndexFunc(c.shapes, func(s groupShape) bool {
			return s.itemClass >= 0 && s.itemClass == itemClass[n] && match.SameGroup(&s.group, g)
		})
		if at < 0 {
			at = len(c.shapes)
			c.addShape(g, itemClass[n])
		}
		c.shapes[at].times++
		c.groups[n] = at
	}
	c.required, c.forbidden = c.next(len(ask.RootRequired)), c.next(len(ask.RootForbidden))
	c.subtrees, c.policy = c.next(len(ask.SameSubtree)), c.next(1)[0]
	return c
}

func (c *clauses) addShape(g *resource.Group, itemClass int) {
	s := groupShape{group: *g, itemClass: itemClass}
	if g.Suffix == "" && len(g.Required) == 0 {
		s.classes = g.Resources.Sorted()
	}
	s.amounts = c.next(max(len(s.classes), 1))
	s.required, s.forbidden = c.next(len(g.Required)), c.next(len(g.Forbidden))
	s.memberOf, s.notMemberOf = c.next(len(g.MemberOf)), c.next(len(g.NotMemberOf))
	s.inTree = c.next(1)[0]
	c.shapes = append(c.shapes, s)
}

// next returns the next n clauses.
func (c *clauses) next(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = c.count
		c.count++
	}
	return out
}

// shapeOf returns the shape of an item of a query for the whole ask.
func (c *clauses) shapeOf(item match.Item) *groupShape { return &c.shapes[c.groups[item.Group]] }

// amount returns the clause for the amount of a class.
func (s *groupShape) amount(class resource.Class) int {
	return s.amounts[max(slices.Index(s.classes, class), 0)]
}

// conditions returns the clauses that are not amounts.
func (s *groupShape) conditions() []int {
	out := slices.Concat(s.required, s.forbidden, s.memberOf, s.notMemberOf)
	if s.group.InTree != "" {
		out = append(out, s.inTree)
	}
	return out
}

// needed returns the clause for the amount of a class, with the conditions of a group without resources: such a group
// asks nothing without its conditions.
func (s *groupShape) needed(class resource.Class) []int {
	out := []int{s.amount(class)}
	if len(s.group.Resources) == 0 {
		out = append(out, s.conditions()...)
	}
	return out
}

// filter returns the members of a list whose clauses are kept.
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

// with returns the ask of these clauses alone. A same_subtree clause is left out with any of its groups: the others may
// have to be under the provider of that one.
func (c *clauses) with(keep set) resource.Ask {
	out := resource.Ask{
		RootRequired:  filter(c.ask.RootRequired, c.required, keep),
		RootForbidden: filter(c.ask.RootForbidden, c.forbidden, keep),
		SameSubtree:   slices.Clone(filter(c.ask.SameSubtree, c.subtrees, keep)),
		GroupPolicy:   resource.PolicyNone,
	}
	if keep[c.policy] {
		out.GroupPolicy = c.ask.GroupPolicy
	}
	less, kept := make([]resource.Group, len(c.shapes)), make([]bool, len(c.shapes))
	for i := range c.shapes {
		less[i], kept[i] = c.shapes[i].with(keep)
	}
	for n, g := range c.ask.Groups {
		at := c.groups[n]
		if kept[at] {
			less[at].Suffix = g.Suffix
			out.Groups = append(out.Groups, less[at])
			continue
		}
		out.SameSubtree = slices.DeleteFunc(out.SameSubtree, func(clause []string) bool {
			return g.Suffix != "" && slices.Contains(clause, g.Suffix)
		})
	}
	return out
}

// with returns the group without what is not kept, and whether anything is left of it.
func (s *groupShape) with(keep set) (resource.Group, bool) {
	g := s.group
	suffixed := g.Suffix != ""
	if suffixed && !keep[s.amounts[0]] {
		return g, false
	}
	g.Resources = resource.Amounts{}
	for class, n := range s.group.Resources {
		if keep[s.amount(class)] {
			g.Resources[class] = n
		}
	}
	g.Required, g.Forbidden = filter(g.Required, s.required, keep), filter(g.Forbidden, s.forbidden, keep)
	g.MemberOf, g.NotMemberOf = filter(g.MemberOf, s.memberOf, keep), filter(g.NotMemberOf, s.notMemberOf, keep)
	if !keep[s.inTree] {
		g.InTree = ""
	}
	return g, suffixed || len(g.Resources) > 0
}

// without returns the set less some clauses, and less those that ask nothing without them: the conditions of a group
// without amounts, and the same_subtree clauses that name it.
func (c *clauses) without(keep set, drop []int) set {
	out := slices.Clone(keep)
	for _, at := range drop {
		out[at] = false
	}
	for i := range c.shapes {
		s := &c.shapes[i]
		if slices.ContainsFunc(s.amounts, func(at int) bool { return out[at] }) {
			continue
		}
		for _, at := range s.conditions() {
			out[at] = false
		}
		c.dropSubtreeClauses(out, i)
	}
	return out
}

// dropSubtreeClauses removes the same_subtree clauses that name a group of a shape.
func (c *clauses) dropSubtreeClauses(keep set, shape int) {
	for n, g := range c.ask.Groups {
		for i, clause := range c.ask.SameSubtree {
			if c.groups[n] == shape && keep[c.subtrees[i]] && g.Suffix != "" && slices.Contains(clause, g.Suffix) {
				keep[c.subtrees[i]] = false
			}
		}
	}
}

// order lists the clauses in the order in which they are tried to be left out: all conditions of groups at once, whole
// groups, conditions on the whole, then the conditions of groups one by one. The conditions of a group without
// resources are not tried.
func (c *clauses) order() [][]int {
	var amounts, conditions []int
	for i := range c.shapes {
		amounts = append(amounts, c.shapes[i].amounts...)
		if len(c.shapes[i].group.Resources) > 0 {
			conditions = append(conditions, c.shapes[i].conditions()...)
		}
	}
	var out [][]int
	if len(conditions) > 1 {
		out = append(out, conditions)
	}
	for _, at := range slices.Concat(amounts, c.subtrees, []int{c.policy}, c.required, c.forbidden, conditions) {
		out = append(out, []int{at})
	}
	return out
}

// kindOf returns the same text for clauses that can change places, so that if one of them is needed, all are: those of
// equally many groups that ask the same, and same_subtree clauses on such groups. It returns "" for all other clauses.
func (c *clauses) kindOf(keep set, drop []int) string {
	if len(drop) > 1 {
		return ""
	}
	if clause := slices.Index(c.subtrees, drop[0]); clause >= 0 {
		return c.kindOfSubtree(clause)
	}
	shape := slices.IndexFunc(c.shapes, func(s groupShape) bool {
		return s.group.Suffix != "" && s.amounts[0] == drop[0]
	})
	if shape < 0 {
		return ""
	}
	for n, g := range c.ask.Groups {
		if c.groups[n] == shape && c.named(g.Suffix, -1) {
			return ""
		}
	}
	g, _ := c.shapes[shape].with(keep)
	g.Suffix = ""
	return fmt.Sprint(c.shapes[shape].times, g)
}

func (c *clauses) kindOfSubtree(clause int) string {
	var shapes []int
	for n, g := range c.ask.Groups {
		if g.Suffix == "" || !slices.Contains(c.ask.SameSubtree[clause], g.Suffix) {
			continue
		}
		if c.named(g.Suffix, clause) {
			return ""
		}
		shapes = append(shapes, c.groups[n])
	}
	slices.Sort(shapes)
	return fmt.Sprint("subtree", shapes)
}

// named reports whether a same_subtree clause other than one names a group.
func (c *clauses) named(suffix string, but int) bool {
	for i, clause := range c.ask.SameSubtree {
		if i != but && slices.Contains(clause, suffix) {
			return true
		}
	}
	return false
}

// words names the clauses kept, for people.
func (c *clauses) words(keep set) []string {
	var out []string
	for i := range c.shapes {
		if g, any := c.shapes[i].with(keep); any {
			out = append(out, times(c.shapes[i].times, amountsName(g.Resources, groupConditions(&g))))
		}
	}
	ask := c.with(keep)
	for _, clause := range ask.SameSubtree {
		out = append(out, "same_subtree="+strings.Join(clause, ","))
	}
	if ask.GroupPolicy == resource.PolicyIsolate {
		out = append(out, "group_policy="+string(ask.GroupPolicy))
	}
	for _, t := range ask.RootRequired {
		out = append(out, "root_required="+string(t))
	}
	for _, t := range ask.RootForbidden {
		out = append(out, "root_required=!"+string(t))
	}
	return out
}
