package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// Help is the clause without which most hosts would have a candidate.
type Help struct {
	Clause string // such as `MEMORY_MB:512` or `HW_CPU_X86_AVX`; empty: no single clause is enough
	Hosts  int    // how many hosts have a candidate without it
}

// String returns a text such as `without HW_CPU_X86_AVX 2 hosts have room`.
func (h Help) String() string { return fmt.Sprintf("without %s %s", h.Clause, helped(h.Hosts)) }

func helped(n int) string { return hosts(n) + " " + verb("have room", n) }

// help returns the clause of the ask whose removal helps most hosts, of equal ones the first of the ask, and its
// number. known is false if the work ended before all clauses were tried, or if a group names a tree: then a single
// host is asked for.
func (m *minimizer) help() (best Help, clause int, known bool) {
	for i := range m.clauses.shapes {
		if m.clauses.shapes[i].group.InTree != "" {
			return Help{}, -1, false
		}
	}
	m.work.limit, clause = m.work.done+m.most, -1
	for _, drop := range m.clauses.order() {
		if len(drop) > 1 || !m.clauses.asks(drop[0]) {
			continue
		}
		all := slices.Repeat(set{true}, m.clauses.count)
		n := m.hostsMeeting(m.clauses.without(all, drop))
		if m.work.stopped || m.work.spent() {
			return Help{}, -1, false
		}
		if n > best.Hosts {
			best, clause = Help{m.clauses.name(drop[0]), n}, drop[0]
		}
	}
	return best, clause, true
}

// hostsMeeting counts the hosts that meet these clauses; 0 if none of them asks for resources.
func (m *minimizer) hostsMeeting(keep set) (n int) {
	ask := m.clauses.with(keep)
	if len(ask.Groups) == 0 {
		return 0
	}
	q := m.full.CompileOther(ask)
	m.work.compile(q)
	if q.Impossible != "" || len(q.Items) == 0 {
		return 0
	}
	solver := candidate.NewTreeSolver(q, m.work.ended)
	for i := range m.classes {
		c := &m.classes[i]
		m.work.solve(q, c.trees[0])
		if solver.Solve(c.trees[0]) {
			n += c.count
		}
		if m.work.spent() || m.work.stopped {
			return n
		}
	}
	return n + m.outsideMeeting(q, solver)
}

// outsideMeeting counts the hosts that the narrowing has excluded and that meet a query.
func (m *minimizer) outsideMeeting(q *match.Query, solver *candidate.TreeSolver) (n int) {
	if m.outside == 0 {
		return 0
	}
	for t := range m.snapshot.Shapes() {
		m.work.seek()
		if _, known := m.classOf(t); known {
			continue
		}
		m.work.solve(q, t)
		if solver.Solve(t) {
			n += m.snapshot.SameShape(t).Len(m.snapshot.Len())
		}
		if m.work.spent() || m.work.stopped {
			break
		}
	}
	return n
}

// asks reports whether a clause restricts anything: a policy may be none, and an in_tree may be absent.
func (c *clauses) asks(clause int) bool {
	if clause == c.policy {
		return c.ask.GroupPolicy == resource.PolicyIsolate
	}
	return !slices.ContainsFunc(c.shapes, func(s groupShape) bool { return clause == s.inTree && s.group.InTree == "" })
}

// name names one clause, for people.
func (c *clauses) name(clause int) string {
	switch {
	case clause == c.policy:
		return "group_policy=" + string(c.ask.GroupPolicy)
	case slices.Contains(c.subtrees, clause):
		return "same_subtree=" + strings.Join(c.ask.SameSubtree[slices.Index(c.subtrees, clause)], ",")
	case slices.Contains(c.required, clause):
		return "root_required=" + string(c.ask.RootRequired[slices.Index(c.required, clause)])
	case slices.Contains(c.forbidden, clause):
		return "root_required=!" + string(c.ask.RootForbidden[slices.Index(c.forbidden, clause)])
	}
	for i := range c.shapes {
		if text := c.shapes[i].name(clause); text != "" {
			return text
		}
	}
	return ""
}

// name names a clause of a group; empty: it is not one of the group.
func (s *groupShape) name(clause int) string {
	g := &s.group
	if at := slices.Index(s.amounts, clause); at >= 0 {
		amounts := g.Resources
		if len(s.classes) > 0 {
			amounts = resource.Amounts{s.classes[at]: g.Resources[s.classes[at]]}
		}
		return times(s.times, amountsName(amounts, ""))
	}
	if at := slices.Index(s.required, clause); at >= 0 {
		return join(g.Required[at], " or ")
	}
	if at := slices.Index(s.forbidden, clause); at >= 0 {
		return "!" + string(g.Forbidden[at])
	}
	if at := slices.Index(s.memberOf, clause); at >= 0 {
		return "member_of=" + join(g.MemberOf[at], " or ")
	}
	if at := slices.Index(s.notMemberOf, clause); at >= 0 {
		return "member_of=!" + string(g.NotMemberOf[at])
	}
	return ""
}
