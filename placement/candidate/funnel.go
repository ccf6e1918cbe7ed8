package candidate

import (
	"strconv"
	"strings"

	"github.com/openberth/berth/resource"
)

// rule is what a stage of the funnel looks at.
type rule int

const (
	narrowed  rule = iota // the index says at once that few hosts can do
	rooted                // root_required
	offered               // some provider offers the class
	qualified             // some provider that offers what the kind asks has its traits, aggregates and tree
	free                  // such a provider has room for one item
	together              // a section has room for all its items
	isolated              // also each on a provider of its own
	subtree               // also under one provider each
)

// stage is one step of the funnel. They come coarse to fine: what tells most at once, what is there at all, what is of the
// right kind, what is free, what is free at once.
type stage struct {
	rule rule
	at   int    // position of the class, kind or section (of the loose plan)
	have string // what the hosts left after it do, once it has been said
}

// stages lists the steps of the funnel for a plan and its loose form.
func (p *plan) stages(loose *plan, narrow bool) []stage {
	out := make([]stage, 0, 4+len(p.classes)+2*len(p.kinds)+len(loose.parts))
	if narrow {
		out = append(out, stage{rule: narrowed})
	}
	if len(p.required)+len(p.banned) > 0 {
		out = append(out, stage{rule: rooted})
	}
	for c := range p.classes {
		out = append(out, stage{rule: offered, at: c})
	}
	for i := range p.kinds {
		if k := &p.kinds[i]; k.picky() || len(k.needs) != 1 {
			out = append(out, stage{rule: qualified, at: i})
		}
	}
	for i := range p.kinds {
		if len(p.kinds[i].needs) > 0 {
			out = append(out, stage{rule: free, at: i})
		}
	}
	for i := range loose.parts {
		if len(loose.parts[i].items) > 1 {
			out = append(out, stage{rule: together, at: i})
		}
	}
	if p.isolate {
		out = append(out, stage{rule: isolated})
	}
	if len(p.subtrees) > 0 {
		out = append(out, stage{rule: subtree})
	}
	return out
}

// have says what the hosts left after a stage do: `offer CUSTOM_NIC`, to be said after their number.
func (x *explainer) have(at int) string {
	s := &x.stages[at]
	if s.have == "" {
		s.have = x.words(*s)
	}
	return s.have
}

func (x *explainer) words(s stage) string {
	p := x.plan
	switch s.rule {
	case narrowed:
		return x.narrow.have(p)
	case rooted:
		return "have a root " + rootWords(x.pieces.ask)
	case offered:
		return "offer " + string(p.names[s.at])
	case qualified:
		return "have " + p.kinds[s.at].what() + " " + p.kinds[s.at].qualities()
	case free:
		return "have " + p.kinds[s.at].amounts.String() + " free on one provider"
	case together:
		part := &x.loose.plan.parts[s.at]
		text := "have room for " + x.loose.plan.list(part.kinds)
		if part.covers {
			text += " on providers that have the required traits between them"
		}
		return text
	}
	var of []int
	for i := range p.kinds {
		if s.rule == isolated && !p.kinds[i].spread || s.rule == subtree && len(p.kinds[i].subtrees) > 0 {
			of = append(of, i)
		}
	}
	if s.rule == isolated {
		return "have room for " + p.list(of) + " on separate providers"
	}
	return "have room for " + p.list(of) + " under one provider as same_subtree asks"
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

// what names what a kind looks for: its classes.
func (k *kind) what() string {
	switch len(k.needs) {
	case 0:
		return "a provider"
	case 1:
		return string(k.class)
	}
	return join(k.amounts.Sorted(), " and ")
}

// picky says whether there are qualities to name.
func (k *kind) picky() bool {
	return len(k.required)+len(k.group.Forbidden)+len(k.group.MemberOf)+len(k.group.NotMemberOf) > 0 || k.inTree || len(k.needs) > 1
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

// list names kinds with their numbers: `9 x CUSTOM_NIC:1 with CUSTOM_RED`.
func (p *plan) list(kinds []int) string {
	if len(kinds) == 1 {
		k := &p.kinds[kinds[0]]
		return times(len(k.items), k.named())
	}
	var names []string
	counts := map[string]int{} // kinds that differ in their clauses alone have one name
	for _, i := range kinds {
		name := p.kinds[i].named()
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name] += len(p.kinds[i].items)
	}
	for i, name := range names {
		names[i] = times(counts[name], name)
	}
	return strings.Join(names, " and ")
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
	return strconv.Itoa(n) + " x " + what
}

func join[N ~string](names []N, by string) string {
	if len(names) == 1 {
		return string(names[0])
	}
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = string(n)
	}
	return strings.Join(parts, by)
}
