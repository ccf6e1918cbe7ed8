package match

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// Compile returns the query for an ask. A name that no provider has ever had is not an error: no provider meets it.
func Compile(s *index.Snapshot, ask resource.Ask) *Query {
	return compile(s, slices.Collect(s.SharingProviders()), ask)
}

// CompileOther returns the query for another ask and the same snapshot. It costs less than Compile, because the
// sharing providers are known.
func (q *Query) CompileOther(ask resource.Ask) *Query { return compile(q.Snapshot, q.Sharing, ask) }

func compile(s *index.Snapshot, sharing []index.Place, ask resource.Ask) *Query {
	q := &Query{
		Snapshot:      s,
		Ask:           ask,
		Sharing:       sharing,
		RootRequired:  numbers(s.Trait, ask.RootRequired),
		RootForbidden: numbers(s.Trait, ask.RootForbidden),
		Isolate:       ask.GroupPolicy == resource.PolicyIsolate && ask.Suffixed() > 1,
	}
	clauses := subtreeClauses(ask)
	q.Subtrees = make([][]int, len(clauses))
	for n := range ask.Groups {
		var in []int
		for i, clause := range clauses {
			if suffix := ask.Groups[n].Suffix; suffix != "" && slices.Contains(clause, suffix) {
				in = append(in, i)
				q.Subtrees[i] = append(q.Subtrees[i], len(q.Items))
			}
		}
		q.add(n, in)
	}
	q.divide()
	q.findShared()
	return q
}

// subtreeClauses returns the same_subtree clauses without those that require nothing: clauses of fewer than two groups
// and repeated ones.
func subtreeClauses(ask resource.Ask) [][]string {
	var out [][]string
	for _, set := range ask.SameSubtree {
		set = slices.Compact(slices.Sorted(slices.Values(set)))
		set = slices.DeleteFunc(set, func(suffix string) bool {
			return !slices.ContainsFunc(ask.Groups, func(g resource.Group) bool { return g.Suffix == suffix })
		})
		repeated := slices.ContainsFunc(out, func(o []string) bool { return slices.Equal(o, set) })
		if len(set) > 1 && !repeated {
			out = append(out, set)
		}
	}
	return out
}

func numbers[N ~string](of func(N) index.ID, names []N) []index.ID {
	out := make([]index.ID, len(names))
	for i, name := range names {
		out[i] = of(name)
	}
	return out
}

// add enters the items of the group at a position of the ask.
func (q *Query) add(group int, subtrees []int) {
	g := &q.Ask.Groups[group]
	for at := range q.ItemClasses {
		c := &q.ItemClasses[at]
		if g.Suffix != "" && !c.Unsuffixed && slices.Equal(c.Subtrees, subtrees) && SameGroup(&c.Group, g) {
			c.Items = append(c.Items, len(q.Items))
			q.Items = append(q.Items, Item{g.Suffix, group, at, g.Resources})
			return
		}
	}
	c := q.conditions(g)
	c.Subtrees = subtrees
	if c.InTree && c.TreeRoot == "" { // looked up even if nothing depends on it
		q.Impossible = fmt.Sprintf("in_tree%s names %s, and there is no such provider", g.Suffix, g.InTree)
	}
	if !c.Unsuffixed {
		if len(g.Resources) == 0 && len(c.Required)+len(c.MemberOf) == 0 {
			const why = "group %s asks neither resources nor a trait or aggregate to be found by"
			q.Impossible = fmt.Sprintf(why, g.Suffix)
		}
		c.Needs = q.needs(g.Resources)
		q.enter(Item{Suffix: g.Suffix, Group: group, Amounts: g.Resources}, c)
		return
	}
	if len(g.Resources) > 1 {
		q.Cover, c.Required = c.Required, nil
	}
	for _, class := range g.Resources.Sorted() {
		one, amounts := c, resource.Amounts{class: g.Resources[class]}
		one.Needs = q.needs(amounts)
		q.enter(Item{Group: group, Amounts: amounts}, one)
	}
}

// conditions returns an item class with the conditions of a group, and notes the tree that in_tree names.
func (q *Query) conditions(g *resource.Group) ItemClass {
	c := ItemClass{
		Unsuffixed:  g.Suffix == "",
		Forbidden:   numbers(q.Snapshot.Trait, g.Forbidden),
		NotMemberOf: numbers(q.Snapshot.Aggregate, g.NotMemberOf),
		InTree:      g.InTree != "",
		TreeRoot:    q.Snapshot.RootOf(g.InTree),
		Group:       *g,
	}
	for _, set := range g.Required {
		c.Required = append(c.Required, numbers(q.Snapshot.Trait, set))
	}
	for _, set := range g.MemberOf {
		c.MemberOf = append(c.MemberOf, numbers(q.Snapshot.Aggregate, set))
	}
	if c.InTree {
		q.inTreeRoots = append(q.inTreeRoots, c.TreeRoot)
	}
	return c
}

// needs returns the amounts as needs, sorted by the name of the resource class, and enters new resource classes.
func (q *Query) needs(amounts resource.Amounts) []Need {
	var out []Need
	for _, name := range amounts.Sorted() {
		if amounts[name] < 1 {
			q.Impossible = fmt.Sprintf("%s:%d asks less than one unit", name, amounts[name])
		}
		class := slices.Index(q.Names, name)
		if class < 0 {
			class = len(q.Classes)
			q.Classes, q.Names = append(q.Classes, q.Snapshot.Class(name)), append(q.Names, name)
		}
		out = append(out, Need{class, q.Classes[class], amounts[name]})
	}
	return out
}

// enter adds an item to the item class equal to c, or adds c.
func (q *Query) enter(it Item, c ItemClass) {
	at := slices.IndexFunc(q.ItemClasses, func(o ItemClass) bool { return o.equal(c) })
	if at < 0 {
		at = len(q.ItemClasses)
		c.Amounts = it.Amounts
		if len(c.Needs) > 0 {
			c.Resource = q.Names[c.Needs[0].Class]
		}
		q.ItemClasses = append(q.ItemClasses, c)
	}
	it.Class = at
	q.ItemClasses[at].Items = append(q.ItemClasses[at].Items, len(q.Items))
	q.Items = append(q.Items, it)
}

// equal reports whether items of two classes need and require the same.
func (c ItemClass) equal(o ItemClass) bool {
	sets := func(a, b [][]index.ID) bool { return slices.EqualFunc(a, b, slices.Equal[[]index.ID]) }
	return c.Unsuffixed == o.Unsuffixed && slices.Equal(c.Needs, o.Needs) && sets(c.Required, o.Required) &&
		slices.Equal(c.Forbidden, o.Forbidden) && sets(c.MemberOf, o.MemberOf) &&
		slices.Equal(c.NotMemberOf, o.NotMemberOf) && c.InTree == o.InTree && c.TreeRoot == o.TreeRoot &&
		slices.Equal(c.Subtrees, o.Subtrees)
}

// SameGroup reports whether two groups ask the same, whatever their suffixes.
func SameGroup(a, b *resource.Group) bool {
	same := len(a.Required) == len(b.Required) && len(a.MemberOf) == len(b.MemberOf) && a.InTree == b.InTree &&
		slices.Equal(a.Forbidden, b.Forbidden) && slices.Equal(a.NotMemberOf, b.NotMemberOf) &&
		maps.Equal(a.Resources, b.Resources)
	for i := 0; same && i < len(a.Required); i++ {
		same = slices.Equal(a.Required[i], b.Required[i])
	}
	for i := 0; same && i < len(a.MemberOf); i++ {
		same = slices.Equal(a.MemberOf[i], b.MemberOf[i])
	}
	return same
}
