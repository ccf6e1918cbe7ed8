package candidate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// rule is what a stage of the funnel looks at.
type rule int

const (
	rooted    rule = iota // root_required
	offered               // some provider offers the class
	qualified             // some provider that offers what the kind asks has its traits, aggregates and tree
	free                  // such a provider has room for one item
	together              // a section has room for all its items
	isolated              // also each on a provider of its own
	subtree               // also under one provider each
)

// stage is one step of the funnel. They come coarse to fine: what is there at all, what is of the right kind, what is
// free, what is free at once.
type stage struct {
	rule   rule
	at     int    // position of the class, kind or section (of the loose plan)
	clause string // what the hosts left do, after a number: `offer CUSTOM_NIC`
	lack   string // what no host does, when this stage takes the last: `none offers CUSTOM_GPU`
	note   string // what to say of a host that has enough and yet fails
}

// stages lists the steps of the funnel for a plan and its loose form.
func (p *plan) stages(loose *plan, root string) []stage {
	var out []stage
	add := func(r rule, at int, verb, what, note string) {
		third := strings.TrimSuffix(verb, "e") + "s"
		if verb == "have" {
			third = "has"
		}
		out = append(out, stage{r, at, verb + " " + what, "none " + third + " " + what, note})
	}
	if len(p.required)+len(p.banned) > 0 {
		add(rooted, 0, "have", "a root "+root, "")
	}
	for c := range p.classes {
		add(offered, c, "offer", string(p.names[c]), "")
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		if q := k.qualities(); q != "" || len(k.needs) != 1 {
			add(qualified, i, "have", k.what()+" "+q, "")
		}
	}
	for i := range p.kinds {
		if k := &p.kinds[i]; len(k.needs) > 0 {
			add(free, i, "have", k.amounts.String()+" free on one provider", "")
		}
	}
	for i, s := range loose.parts {
		if len(s.items) > 1 {
			text := "room for " + loose.list(s.kinds)
			if s.covers {
				text += " on providers that have the required traits between them"
			}
			add(together, i, "have", text, "")
		}
	}
	var suffixed, bound []int
	for i := range p.kinds {
		if !p.kinds[i].spread {
			suffixed = append(suffixed, i)
		}
		if len(p.kinds[i].subtrees) > 0 {
			bound = append(bound, i)
		}
	}
	if p.isolate {
		add(isolated, 0, "have", "room for "+p.list(suffixed)+" on separate providers", "group_policy=isolate")
	}
	if len(p.subtrees) > 0 {
		add(subtree, 0, "have", "room for "+p.list(bound)+" under one provider as same_subtree asks", "same_subtree")
	}
	return out
}

// rootWords names what root_required asks.
func rootWords(ask resource.Ask) string {
	var parts []string
	for _, t := range ask.RootRequired {
		parts = append(parts, "with "+string(t))
	}
	for _, t := range ask.RootForbidden {
		parts = append(parts, "without "+string(t))
	}
	return strings.Join(parts, ", ")
}

// reach finds the first stage that a tree fails, or the number of stages.
func (x *explainer) reach(st *standing) int {
	t := st.tree
	if !x.host.anchors(t) {
		return x.stage(rooted, 0)
	}
	if !x.host.survey(t) {
		return x.starve(st)
	}
	for _, h := range []*host{x.loose, x.apart, x.host} {
		if h == nil || h == x.host && h.solve() || h != x.host && h.fill(t) {
			continue
		}
		x.measure(st, h, &h.plan.parts[h.stuck])
		switch {
		case h == x.loose:
			return x.stage(together, h.stuck)
		case h == x.apart || len(x.plan.subtrees) == 0:
			return x.stage(isolated, 0)
		}
		return x.stage(subtree, 0)
	}
	return len(x.stages)
}

// stage finds a stage by what it looks at.
func (x *explainer) stage(r rule, at int) int {
	return slices.IndexFunc(x.stages, func(s stage) bool { return s.rule == r && s.at == at })
}

// starve finds the first stage that a tree fails on which some kind has nowhere to go.
func (x *explainer) starve(st *standing) int {
	around := x.around(st.tree)
	for i, s := range x.stages {
		ok := true
		switch s.rule {
		case offered:
			ok = slices.ContainsFunc(around, func(at index.Place) bool { return offers(at, x.plan.classes[s.at]) })
		case qualified:
			k := &x.plan.kinds[s.at]
			ok = slices.ContainsFunc(around, func(at index.Place) bool { return k.offered(at) && k.admits(st.tree, at) })
		case free:
			k := &x.plan.kinds[s.at]
			ok = slices.ContainsFunc(around, func(at index.Place) bool { return k.fits(at.Node()) && k.admits(st.tree, at) })
			if !ok {
				st.alone = !slices.ContainsFunc(around, func(at index.Place) bool { return k.fits(at.Node()) })
				x.gauge(st, s.at, around)
			}
		}
		if !ok {
			return i
		}
	}
	return len(x.stages) - 1
}

// around lists the providers that could serve a tree if they had what it takes: its own, and the sharing ones
// connected with it. The list is good until the next call.
func (x *explainer) around(t *index.Tree) []index.Place {
	out := x.near[:0]
	for i := range t.Nodes {
		out = append(out, index.Place{Tree: t, At: i})
	}
	for _, s := range x.sharers {
		if s.Tree != t && connected(s.Node(), t) {
			out = append(out, s)
		}
	}
	x.near = out
	return out
}

func offers(at index.Place, class index.No) bool {
	st := at.Node().Stock(class)
	return st != nil && st.Offered()
}

// offered says whether a provider has inventory of all that the kind asks.
func (k *kind) offered(at index.Place) bool {
	return !slices.ContainsFunc(k.needs, func(n need) bool { return !offers(at, n.number) })
}

// admits says whether a provider has the traits, aggregates and tree of the kind, for candidates of the tree.
func (k *kind) admits(t *index.Tree, at index.Place) bool {
	switch {
	case !k.spread:
		return k.suits(at)
	case at.Tree == t:
		return k.suitsTree(at)
	}
	return !k.inTree && k.suits(at) && !inAny(t.Top(), k.without)
}

// what names what a kind looks for: its classes.
func (k *kind) what() string {
	if len(k.needs) == 0 {
		return "a provider"
	}
	return join(k.amounts.Sorted(), " and ")
}

// qualities names the traits, aggregates and tree of a kind, or nothing.
func (k *kind) qualities() string {
	var parts []string
	if len(k.required) > 0 {
		for _, set := range k.group.Required {
			parts = append(parts, "with "+join(set, " or "))
		}
	}
	if len(k.group.Forbidden) > 0 {
		parts = append(parts, "without "+join(k.group.Forbidden, ", "))
	}
	for _, set := range k.group.MemberOf {
		parts = append(parts, "in aggregate "+join(set, " or "))
	}
	if len(k.group.NotMemberOf) > 0 {
		parts = append(parts, "outside aggregate "+join(k.group.NotMemberOf, ", "))
	}
	if k.inTree {
		parts = append(parts, "in the tree of "+string(k.group.InTree))
	}
	if len(k.needs) > 1 {
		parts = append(parts, "on one provider")
	}
	return strings.Join(parts, ", ")
}

// list names kinds with their numbers: `9 × CUSTOM_NIC:1 with CUSTOM_RED`.
func (p *plan) list(kinds []int) string {
	var parts []string
	for _, i := range kinds {
		parts = append(parts, times(len(p.kinds[i].items), p.kinds[i].named()))
	}
	return strings.Join(parts, " and ")
}

// named is what an item of the kind asks, with its qualities.
func (k *kind) named() string {
	text := k.amounts.String()
	if text == "" {
		text = "a provider"
	}
	if q := k.qualities(); q != "" && len(k.needs) < 2 {
		text += " " + q
	}
	return text
}

func times(n int, what string) string {
	if n == 1 {
		return what
	}
	return fmt.Sprintf("%d × %s", n, what)
}

func join[N ~string](names []N, by string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = string(n)
	}
	return strings.Join(parts, by)
}
