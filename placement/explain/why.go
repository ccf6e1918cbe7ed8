// Package explain finds why an ask has no allocation candidate.
//
// An explanation has three parts. The funnel counts the hosts left after each clause of the ask, in an order in which
// the first clause that a host fails explains most. The minimal set is clauses that no host meets together. The
// nearest misses are the hosts that came furthest, and what they lack.
//
// The hosts are judged once, one of each shape (index.Shape), and only those that the index does not exclude. The
// minimal set starts with clauses that are known to refute every host; then clauses are left out one by one, and
// the solver decides whether a host meets the rest. That search is bounded by the work of the judgement. If the bound
// ends it, the set is still one that no host meets, but it is marked Rough: some clause may not be needed.
package explain

import (
	"fmt"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// Why returns why the ask has no candidate, or the zero value if there is one. It ends soon after stop has returned
// true, and then its result must not be used; a nil stop never does.
func Why(s *index.Snapshot, ask resource.Ask, stop func() bool) Explanation {
	full := match.Compile(s, ask)
	all := []FunnelRow{{Clause: "hosts", Left: s.Len()}}
	switch {
	case full.Impossible != "":
		return Explanation{Reason: full.Impossible, Funnel: all}
	case len(full.Items) == 0:
		return Explanation{Reason: "the ask has no group with resources", Funnel: all}
	case s.Len() == 0:
		return Explanation{Reason: "there are no providers at all", Funnel: all}
	}
	j := newJudge(newProblem(full), &work{stop: stop})
	if !j.judgeAll() {
		return whyFlat(s, ask, stop)
	}
	nearest, has := j.nearest()
	e := Explanation{Funnel: j.funnel(), Reason: j.reason(nearest, has), Nearest: nearest}
	m, keep := newMinimizer(j)
	keep, e.Rough = m.minimal(keep)
	e.Minimal = j.clauses.words(keep)
	help, clause, known := m.help()
	if !known || clause < 0 {
		return e
	}
	if e.Help = help; !j.named(clause) {
		e.Reason += "; " + help.String()
	}
	return e
}

// whyFlat explains an ask that only Ask.Flat can prevent.
func whyFlat(s *index.Snapshot, ask resource.Ask, stop func() bool) Explanation {
	if !ask.Flat {
		return Explanation{}
	}
	for range candidate.Find(s, ask, candidate.Options{Stop: stop}) {
		return Explanation{}
	}
	const reason = "candidates exist, but all span several providers of one tree; " +
		"they are returned from microversion 1.29"
	return Explanation{
		Reason: reason,
		Funnel: []FunnelRow{{Clause: "hosts", Left: s.Len()},
			{Clause: "have all on one provider", Removed: namesOf(s.Trees())}},
	}
}

// funnel counts the hosts left after each stage. A stage that excludes no host is left out, and so are all after the
// one that excludes the last.
func (j *judge) funnel() []FunnelRow {
	rows := []FunnelRow{{Clause: "hosts", Left: j.snapshot.Len()}}
	for i, s := range j.stages {
		if left := j.passing(i); left < rows[len(rows)-1].Left {
			rows = append(rows, FunnelRow{j.text(s), left, j.removed(i)})
		}
	}
	return rows
}

// named reports whether the reason is about a clause: it is one of those that the last stage refutes.
func (j *judge) named(clause int) bool { return j.refuted(j.stages[j.furthest()])[clause] }

// reason puts the end of the funnel into one line.
func (j *judge) reason(nearest []NearestMiss, has supply) string {
	furthest := j.furthest()
	last, left, before := j.stages[furthest], j.snapshot.Len(), -1
	for i := range furthest {
		if n := j.passing(i); n < left {
			left, before = n, i
		}
	}
	near := ""
	if last.rule >= free && len(nearest) > 0 {
		near = " (nearest: " + nearest[0].String() + ")"
	}
	none := ", none " + verb(j.text(last), 1) + near
	switch {
	case last.rule == narrowed:
		return j.noHostText()
	case last.rule == free && has.free == 0 && match.Plus(has.of, has.reserved) > 0:
		return j.takenText(last, left, has) + near
	case before < 0:
		return "of " + hosts(left) + none
	}
	return hosts(left) + " " + verb(j.text(j.stages[before]), left) + none
}

// takenText is the reason if consumers hold all units of a class, or if all are reserved.
func (j *judge) takenText(s stage, left int, has supply) string {
	text := hosts(left) + " " + verb("have "+classesOf(&j.relaxed.ItemClasses[s.at]), left)
	if has.of == 0 {
		return fmt.Sprintf("%s but all %d are reserved", text, has.reserved)
	}
	return fmt.Sprintf("%s but all %d are taken", text, has.of)
}
