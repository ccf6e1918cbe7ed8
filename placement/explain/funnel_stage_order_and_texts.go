package explain

import (
	"slices"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// rule is what a stage of the funnel checks.
type rule int

const (
	narrowed  rule = iota // the index excludes the hosts at once
	rooted                // root_required
	offered               // some provider has inventory of the class
	covered               // some provider of the unsuffixed group has one of a set of traits that they need together
	qualified             // some provider with inventory of what the item needs meets its conditions
	free                  // such a provider has room for one item
	together              // a section has room for all its items
	isolated              // also each item on a provider of its own
	subtree               // also under one provider each
)

// stage is one check of the funnel. The stages are ordered so that the first a host fails explains most: what does not
// exist, what is of the wrong kind, what is not free, what is not free at once.
type stage struct {
	rule rule
	at   int // position of the class, item class or section in the relaxed query
}

// problem is an ask in the forms that the explanation compares.
type problem struct {
	snapshot *index.Snapshot
	full     *match.Query
	isolated *match.Query // full without same_subtree; nil if that is full or relaxed
	relaxed  *match.Query // full without same_subtree and group_policy; the same as full if it has none
	clauses  *clauses
	narrow   *match.Narrowing // the clause by which the index excludes most hosts; nil: it excludes none
	stages   []stage
}

func newProblem(full *match.Query) *problem {
	p := &problem{snapshot: full.Snapshot, full: full, relaxed: full}
	if full.Isolate || len(full.Subtrees) > 0 {
		ask := full.Ask
		ask.SameSubtree = nil
		if full.Isolate && len(full.Subtrees) > 0 {
			p.isolated = full.CompileOther(ask)
		}
		ask.GroupPolicy = resource.PolicyNone
		p.relaxed = full.CompileOther(ask)
	}
	p.clauses = clausesOf(full.Ask, p.relaxed)
	p.relaxed.Narrowings(p.sharedServes, func(n match.Narrowing) {
		if n.Len() < p.snapshot.Len() && (p.narrow == nil || n.Len() < p.narrow.Len()) {
			p.narrow = &n
		}
	})
	p.stages = p.listStages()
	return p
}

// sharedServes reports whether some sharing provider has what an item needs, free or not. Then the hosts that do not
// have it themselves are part of the explanation.
func (p *problem) sharedServes(c *match.ItemClass) bool {
	return !(c.Unsuffixed && c.InTree) &&
		slices.ContainsFunc(p.full.Sharing, func(at index.Place) bool { return c.Offered(at.Node()) })
}

// listStages returns the stages in their order.
func (p *problem) listStages() []stage {
	q := p.relaxed
	out := make([]stage, 0, 4+len(q.Classes)+2*len(q.ItemClasses)+len(q.Sections))
	if p.narrow != nil {
		out = append(out, stage{rule: narrowed})
	}
	if len(q.RootRequired)+len(q.RootForbidden) > 0 {
		out = append(out, stage{rule: rooted})
	}
	for c := range q.Classes {
		out = append(out, stage{offered, c})
	}
	for set := range q.Cover {
		out = append(out, stage{covered, set})
	}
	for i := range q.ItemClasses {
		if c := &q.ItemClasses[i]; len(c.Needs) != 1 || conditionsOf(c) != "" {
			out = append(out, stage{qualified, i})
		}
	}
	for i := range q.ItemClasses {
		if len(q.ItemClasses[i].Needs) > 0 {
			out = append(out, stage{free, i})
		}
	}
	for i := range q.Sections {
		if len(q.Sections[i].Items) > 1 {
			out = append(out, stage{together, i})
		}
	}
	if p.full.Isolate {
		out = append(out, stage{rule: isolated})
	}
	if len(p.full.Subtrees) > 0 {
		out = append(out, stage{rule: subtree})
	}
	return out
}

// find returns the position of a stage.
func (p *problem) find(r rule, at int) int { return slices.Index(p.stages, stage{r, at}) }

// text returns what the hosts that pass a stage do, to follow their number: `offer CUSTOM_NIC`.
func (p *problem) text(s stage) string {
	q := p.relaxed
	switch s.rule {
	case narrowed:
		return p.narrowText()
	case rooted:
		return "have a root " + rootConditions(q.Ask)
	case offered:
		return "offer " + string(q.Names[s.at])
	case covered:
		return "have a provider of " + p.coveredText(s.at)
	case qualified:
		return "have " + classesOf(&q.ItemClasses[s.at]) + " " + conditionsOf(&q.ItemClasses[s.at])
	case free:
		return "have " + q.ItemClasses[s.at].Amounts.String() + " free on one provider"
	case together:
		text := "have room for " + itemNames(q, q.Sections[s.at].ItemClasses)
		if q.Sections[s.at].Covers {
			text += " on providers that have the required traits between them"
		}
		return text
	}
	var of []int
	for i := range p.full.ItemClasses {
		c := &p.full.ItemClasses[i]
		if s.rule == isolated && !c.Unsuffixed || s.rule == subtree && len(c.Subtrees) > 0 {
			of = append(of, i)
		}
	}
	if s.rule == isolated {
		return "have room for " + itemNames(p.full, of) + " on separate providers"
	}
	return "have room for " + itemNames(p.full, of) + " under one provider as same_subtree asks"
}

// coveringSection returns the section of the unsuffixed group whose providers must have traits together.
func (p *problem) coveringSection() *match.Section {
	i := slices.IndexFunc(p.relaxed.Sections, func(s match.Section) bool { return s.Covers })
	return &p.relaxed.Sections[i]
}

// coveredText names the resource classes of the unsuffixed group, and one of the sets of traits that its providers must
// have together.
func (p *problem) coveredText(set int) string {
	group := p.clauses.shapeOf(p.relaxed.Items[p.coveringSection().Items[0]]).group
	return join(group.Resources.Sorted(), " or ") + " with " + join(group.Required[set], " or ")
}

// narrowText returns what the hosts that the index leaves do.
func (p *problem) narrowText() string {
	switch {
	case p.narrow.Tree != nil:
		return "hold provider " + string(p.narrowClass().Group.InTree)
	case p.narrow.Class >= 0:
		return "offer " + string(p.relaxed.Names[p.narrow.Class])
	}
	return "have a provider with " + p.narrowTrait()
}

// noHostText is the reason if the index leaves no host.
func (p *problem) noHostText() string {
	switch {
	case p.narrow.Class >= 0:
		return "no provider offers " + string(p.relaxed.Names[p.narrow.Class])
	case p.narrow.ItemClass < 0:
		return "no provider has " + p.narrowTrait() + ", which root_required names"
	}
	return "no provider has " + p.narrowTrait() + ", which is asked with " + classesOf(p.narrowClass())
}

func (p *problem) narrowClass() *match.ItemClass { return &p.relaxed.ItemClasses[p.narrow.ItemClass] }

func (p *problem) narrowTrait() string {
	if p.narrow.ItemClass < 0 {
		return string(p.full.Ask.RootRequired[p.narrow.Trait])
	}
	return string(p.narrowClass().Group.Required[p.narrow.Trait][0])
}

// refuted returns clauses that no host which fails the stage meets together.
func (p *problem) refuted(s stage) set {
	out := make(set, p.clauses.count)
	q := p.relaxed
	switch s.rule {
	case narrowed:
		p.addNarrowing(out)
	case rooted:
		out.add(p.clauses.required...)
		out.add(p.clauses.forbidden...)
	case offered:
		c := slices.IndexFunc(q.ItemClasses, func(c match.ItemClass) bool { return c.Amount(s.at) > 0 })
		item := q.Items[q.ItemClasses[c].Items[0]]
		out.add(p.clauses.shapeOf(item).needed(q.Names[s.at])...)
	case covered:
		shape := p.clauses.shapeOf(q.Items[p.coveringSection().Items[0]])
		out.add(shape.amounts...)
		out.add(shape.required[s.at])
	case qualified, free:
		p.addItems(out, q.ItemClasses[s.at].Items[:1])
	case together:
		p.addItems(out, q.Sections[s.at].Items)
	case isolated, subtree:
		for _, section := range p.queryOf(s.rule).Sections {
			if p.bound(s.rule, &section) {
				p.addItems(out, section.Items)
			}
		}
		if p.full.Isolate {
			out.add(p.clauses.policy)
		}
		if s.rule == subtree {
			out.add(p.clauses.subtrees...)
		}
	}
	return out
}

// queryOf returns the query that hosts must meet to pass the stages up to a rule.
func (p *problem) queryOf(r rule) *match.Query {
	switch {
	case r == isolated && p.isolated != nil:
		return p.isolated
	case r == isolated || r == subtree:
		return p.full
	}
	return p.relaxed
}

// bound reports whether group_policy or same_subtree concerns a section.
func (p *problem) bound(r rule, s *match.Section) bool {
	if r == subtree {
		return len(s.Clauses) > 0
	}
	return slices.ContainsFunc(s.Items, func(i int) bool { return p.full.Items[i].Suffix != "" })
}

// addItems adds the clauses of items: their amounts and conditions.
func (p *problem) addItems(to set, items []int) {
	for _, i := range items {
		item := p.relaxed.Items[i]
		shape := p.clauses.shapeOf(item)
		to.add(shape.amount(p.relaxed.ItemClasses[item.Class].Resource))
		to.add(shape.conditions()...)
	}
}

// addNarrowing adds the clauses that exclude the hosts outside the narrowing.
func (p *problem) addNarrowing(to set) {
	n := p.narrow
	if n.ItemClass < 0 {
		to.add(p.clauses.required[n.Trait])
		return
	}
	c := p.narrowClass()
	shape := p.clauses.shapeOf(p.relaxed.Items[c.Items[0]])
	to.add(shape.needed(c.Resource)...)
	switch {
	case n.Tree != nil:
		to.add(shape.inTree)
	case n.Trait >= 0:
		to.add(shape.required[n.Trait])
	default:
		to.add(shape.amount(p.relaxed.Names[n.Class]))
	}
}
