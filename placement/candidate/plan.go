package candidate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// plan is an ask made ready for one snapshot: names turned into numbers, equal groups counted instead of repeated, and
// the whole cut into parts that cannot get in each other's way.
//
// What has to be placed is an item: a suffixed group, or one class of the unsuffixed group. Items that ask the same
// under the same conditions are of one kind.
type plan struct {
	snapshot     *index.Snapshot
	classes      []index.No // what is asked for; elsewhere in this package a class is a position in this list
	names        []resource.Class
	kinds        []kind
	items        []item
	parts        []section
	required     []index.No // root_required
	banned       []index.No // root_required with "!"
	flat         bool       // of one tree, only one provider gives anything
	isolate      bool       // no two suffixed items on one provider
	limit        int
	cover        [][]index.No         // required of an unsuffixed group of several classes: met by its providers between them
	subtrees     [][]int              // same_subtree: the items that must lie under one of their providers; two at least
	sharing      []index.Place        // all sharing providers
	sharers      []sharer             // those of them that can serve some kind in other trees
	lenders      map[index.No][]int   // aggregate → positions in sharers
	rootRequired []resource.Trait     // the same in words
	dead         map[index.Shape]bool // trees of these shapes have no candidate
	trunks       []provider.ID        // the roots of trees that in_tree names
	nothing      string               // why no provider can ever meet some group, or "" when it is worth looking

	stop  Until // nil: never
	asked int   // how often stopped was asked
	over  bool  // stop said so
}

// item is what one provider has to give.
type item struct {
	suffix string
	kind   int
	alone  resource.Amounts // the allocation on a provider that gives nothing else
}

// kind is what all items of a kind have in common.
type kind struct {
	needs    []need
	spread   bool         // of the unsuffixed group
	required [][]index.No // each: at least one of these, on the provider
	banned   []index.No   // none of these, on the provider
	within   [][]index.No // member_of
	without  []index.No   // member_of with "!"
	inTree   bool
	tree     provider.ID // in_tree: the root of the tree
	subtrees []int       // positions in plan.subtrees
	items    []int
	group    resource.Group   // the first of its groups, for words
	amounts  resource.Amounts // what an item asks
	class    resource.Class   // the first class that it asks, or nothing
}

// need is an amount of one class.
type need struct {
	class  int
	number index.No
	amount int
}

// compile makes the plan.
func compile(s *index.Snapshot, ask resource.Ask, stop Until) *plan {
	return compileWith(s, slices.Collect(s.Sharers()), ask, stop)
}

// compileWith is compile, when the sharing providers of the snapshot are known.
func compileWith(s *index.Snapshot, sharing []index.Place, ask resource.Ask, stop Until) *plan {
	p := &plan{
		snapshot:     s,
		sharing:      sharing,
		required:     numbers(s.Trait, ask.RootRequired),
		banned:       numbers(s.Trait, ask.RootForbidden),
		rootRequired: ask.RootRequired,
		dead:         map[index.Shape]bool{},
		isolate:      ask.GroupPolicy == resource.PolicyIsolate && ask.Suffixed() > 1,
		flat:         ask.Flat,
		limit:        ask.Limit,
		stop:         stop,
	}
	clauses := subtreeClauses(ask)
	p.subtrees = make([][]int, len(clauses))
	for _, g := range ask.Groups {
		var in []int
		for i, clause := range clauses {
			if slices.Contains(clause, g.Suffix) && g.Suffix != "" {
				in = append(in, i)
				p.subtrees[i] = append(p.subtrees[i], len(p.items))
			}
		}
		p.add(g, in)
	}
	p.divide()
	p.lend()
	return p
}

// subtreeClauses drops the same_subtree clauses that say nothing: those of fewer than two groups, and repeated ones.
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

func numbers[N ~string](of func(N) index.No, names []N) []index.No {
	out := make([]index.No, len(names))
	for i, name := range names {
		out[i] = of(name)
	}
	return out
}

// add enters the items of a group.
func (p *plan) add(g resource.Group, subtrees []int) {
	for at := range p.kinds {
		if k := &p.kinds[at]; g.Suffix != "" && !k.spread && slices.Equal(k.subtrees, subtrees) && sameGroup(&k.group, &g) {
			k.items = append(k.items, len(p.items))
			p.items = append(p.items, item{g.Suffix, at, g.Resources})
			return
		}
	}
	k := kind{
		spread:   g.Suffix == "",
		banned:   numbers(p.snapshot.Trait, g.Forbidden),
		without:  numbers(p.snapshot.Aggregate, g.NotMemberOf),
		inTree:   g.InTree != "",
		tree:     p.snapshot.RootOf(g.InTree),
		subtrees: subtrees,
		group:    g,
	}
	for _, set := range g.Required {
		k.required = append(k.required, numbers(p.snapshot.Trait, set))
	}
	for _, set := range g.MemberOf {
		k.within = append(k.within, numbers(p.snapshot.Aggregate, set))
	}
	if k.inTree {
		p.trunks = append(p.trunks, k.tree)
	}
	if k.inTree && k.tree == "" { // looked up even if nothing depends on it
		p.nothing = fmt.Sprintf("in_tree%s names %s, and there is no such provider", g.Suffix, g.InTree)
	}
	if !k.spread {
		if len(g.Resources) == 0 && len(k.required)+len(k.within) == 0 {
			p.nothing = fmt.Sprintf("group %s asks neither resources nor a trait or aggregate to be found by", g.Suffix)
		}
		k.needs = p.needs(g.Resources)
		p.enter(g.Suffix, k, g.Resources)
		return
	}
	if len(g.Resources) > 1 {
		p.cover, k.required = k.required, nil
	}
	for _, c := range g.Resources.Sorted() {
		one, alone := k, resource.Amounts{c: g.Resources[c]}
		one.needs = p.needs(alone)
		p.enter("", one, alone)
	}
}

func (p *plan) needs(amounts resource.Amounts) []need {
	var out []need
	for _, c := range amounts.Sorted() {
		if amounts[c] < 1 {
			p.nothing = fmt.Sprintf("%s:%d asks less than one unit", c, amounts[c])
		}
		class := slices.Index(p.names, c)
		if class < 0 {
			class = len(p.classes)
			p.classes, p.names = append(p.classes, p.snapshot.Class(c)), append(p.names, c)
		}
		out = append(out, need{class, p.classes[class], amounts[c]})
	}
	return out
}

func (p *plan) enter(suffix string, k kind, alone resource.Amounts) {
	at := slices.IndexFunc(p.kinds, func(o kind) bool { return o.equal(k) })
	if at < 0 {
		at = len(p.kinds)
		k.amounts = alone
		if len(k.needs) > 0 {
			k.class = p.names[k.needs[0].class]
		}
		p.kinds = append(p.kinds, k)
	}
	p.kinds[at].items = append(p.kinds[at].items, len(p.items))
	p.items = append(p.items, item{suffix, at, alone})
}

// sameGroup says whether two groups ask the same, whatever their suffixes.
func sameGroup(a, b *resource.Group) bool {
	same := len(a.Required) == len(b.Required) && len(a.MemberOf) == len(b.MemberOf) && a.InTree == b.InTree &&
		slices.Equal(a.Forbidden, b.Forbidden) && slices.Equal(a.NotMemberOf, b.NotMemberOf) && maps.Equal(a.Resources, b.Resources)
	for i := 0; same && i < len(a.Required); i++ {
		same = slices.Equal(a.Required[i], b.Required[i])
	}
	for i := 0; same && i < len(a.MemberOf); i++ {
		same = slices.Equal(a.MemberOf[i], b.MemberOf[i])
	}
	return same
}

// relaxed is the plan without same_subtree, and without group_policy unless it isolates. Its items are the same.
func (p *plan) relaxed(isolate bool) *plan {
	out := *p
	out.isolate, out.parts = isolate, nil
	if len(p.subtrees) > 0 {
		out.subtrees, out.kinds, out.items = nil, nil, nil
		for _, it := range p.items {
			k := p.kinds[it.kind]
			k.subtrees, k.items = nil, nil
			out.enter(it.suffix, k, it.alone)
		}
		out.sharers = nil
		out.lend()
	}
	out.divide()
	return &out
}

func (k kind) equal(o kind) bool {
	sets := func(a, b [][]index.No) bool { return slices.EqualFunc(a, b, slices.Equal[[]index.No]) }
	return k.spread == o.spread && slices.Equal(k.needs, o.needs) && sets(k.required, o.required) &&
		slices.Equal(k.banned, o.banned) && sets(k.within, o.within) && slices.Equal(k.without, o.without) &&
		k.inTree == o.inTree && k.tree == o.tree && slices.Equal(k.subtrees, o.subtrees)
}

// section is kinds that may compete for the same units or providers, or are bound to each other by a clause. Sections
// do not touch each other: each is solved alone, and any solution of one goes with any of another.
type section struct {
	kinds   []int
	items   []int
	classes []int
	covers  bool  // plan.cover applies to it
	clauses []int // same_subtree clauses, positions in plan.subtrees
	exact   bool  // counting decides: a flow with one capacity per provider
}

// divide cuts the kinds into sections.
func (p *plan) divide() {
	leader := make([]int, len(p.kinds))
	for i := range leader {
		leader[i] = i
	}
	join := func(a, b int) {
		from, to := leader[b], leader[a]
		for i, l := range leader {
			if l == from {
				leader[i] = to
			}
		}
	}
	for a := range p.kinds {
		for b := range a {
			ka, kb := &p.kinds[a], &p.kinds[b]
			slots := p.isolate && !ka.spread && !kb.spread
			covered := len(p.cover) > 0 && ka.spread && kb.spread
			if slots || covered || shareClass(ka, kb) {
				join(a, b)
			}
		}
	}
	for _, clause := range p.subtrees {
		for _, i := range clause {
			join(p.items[clause[0]].kind, p.items[i].kind)
		}
	}
	for k, l := range leader {
		if k == l {
			p.parts = append(p.parts, p.section(l, leader))
		}
	}
}

func shareClass(a, b *kind) bool {
	return slices.ContainsFunc(a.needs, func(n need) bool {
		return slices.ContainsFunc(b.needs, func(m need) bool { return m.class == n.class })
	})
}

func (p *plan) section(l int, leader []int) section {
	var s section
	for k := range p.kinds {
		if leader[k] != l {
			continue
		}
		s.kinds = append(s.kinds, k)
		s.items = append(s.items, p.kinds[k].items...)
		s.covers = s.covers || p.kinds[k].spread && len(p.cover) > 0
		s.clauses = append(s.clauses, p.kinds[k].subtrees...)
		for _, n := range p.kinds[k].needs {
			s.classes = append(s.classes, n.class)
		}
	}
	for _, list := range []*[]int{&s.items, &s.classes, &s.clauses} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	s.exact = !s.covers && len(s.clauses) == 0 && p.uniform(s.kinds)
	return s
}

// uniform says whether each provider can take a fixed number of items, whichever kinds they are of: one when the
// policy is to isolate, else as many as fit when all kinds ask the same amounts.
func (p *plan) uniform(kinds []int) bool {
	isolated, equal := p.isolate, true
	for _, k := range kinds {
		isolated = isolated && !p.kinds[k].spread
		equal = equal && slices.Equal(p.kinds[k].needs, p.kinds[kinds[0]].needs)
	}
	if isolated {
		return true
	}
	mixed := p.isolate && slices.ContainsFunc(kinds, func(k int) bool { return !p.kinds[k].spread })
	return equal && !mixed
}
