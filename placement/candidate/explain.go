package candidate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Explanation says why an ask has no candidate. It is the zero value when there is one.
type Explanation struct {
	Reason  string   // one line for a log or a fault message
	Funnel  []Step   // how many hosts are left after each clause, one upon the other; the first step is all hosts
	Minimal []string // clauses that cannot hold together anywhere: leaving out any one of them would help
	Rough   bool     // some clause of Minimal may not be needed: to find out would have cost more than the question itself
	Nearest []Miss   // up to three hosts that came closest
}

// Step is one clause of the funnel.
type Step struct {
	Clause string
	Left   int // hosts (trees) for which this clause and all before it hold
}

// String is such as `12 offer CUSTOM_NIC`.
func (s Step) String() string { return strconv.Itoa(s.Left) + " " + s.Clause }

// Miss is a host that came close, and what it lacks.
type Miss struct {
	Root     provider.ID
	Host     string // the name of the root
	Deficits []Deficit
}

// Cause says why something is lacking.
type Cause string

// The causes of a deficit.
const (
	Absent    Cause = "absent"    // no provider here offers the class
	Excluded  Cause = "excluded"  // it is here, but on providers without the traits, aggregates or tree asked for
	Forbidden Cause = "forbidden" // it is here, on providers that would do if they had no trait or aggregate that the ask forbids
	Held      Cause = "held"      // it is here, but consumers have it
	Reserved  Cause = "reserved"  // it is here, but the operator keeps it back
	Small     Cause = "small"     // there is less of it than asked, even when nobody has any
	Shape     Cause = "shape"     // min_unit, max_unit or step_size never allow the amount
	Contended Cause = "contended" // there is enough, but not in a way that all groups get theirs
)

// Deficit is what one host lacks of one class.
type Deficit struct {
	Class resource.Class // "" for a group without resources
	Cause Cause
	Asks  int    // units asked for
	Free  int    // units that could be had
	Of    int    // units that the providers in question give out at most
	Note  string // what else there is to say: the traits that are missing, the rule that forbids

	Taken []provider.ID // providers in question of which consumers hold units, a few; by whom, the index does not know
}

// String is such as `CUSTOM_NIC: asks 8, 7 of 8 free`.
func (d Deficit) String() string {
	name := string(d.Class)
	if name == "" {
		name = "a provider"
	}
	switch {
	case d.Cause == Absent:
		return name + ": asks " + strconv.Itoa(d.Asks) + ", none here"
	case d.Cause == Excluded && d.Class == "":
		return d.Note
	case d.Cause == Excluded:
		return name + ": none " + d.Note
	case d.Cause == Forbidden:
		return name + ": none " + d.Note + "; those here are forbidden"
	}
	text := name + ": asks " + strconv.Itoa(d.Asks) + ", " + strconv.Itoa(d.Free) + " of " + strconv.Itoa(d.Of) + " free"
	if d.Note != "" {
		text += " (" + d.Note + ")"
	}
	return text
}

// String is such as `cmp-17: CUSTOM_NIC: asks 8, 7 of 8 free`.
func (m Miss) String() string {
	parts := make([]string, len(m.Deficits))
	for i, d := range m.Deficits {
		parts[i] = d.String()
	}
	return m.Host + ": " + strings.Join(parts, "; ")
}

// String is the whole explanation for people, several lines.
func (e Explanation) String() string {
	if e.Reason == "" {
		return "there are candidates\n"
	}
	var b strings.Builder
	fmt.Fprintln(&b, e.Reason)
	for _, s := range e.Funnel {
		fmt.Fprintf(&b, "%8d %s\n", s.Left, s.Clause)
	}
	if len(e.Minimal) > 0 {
		rough := ""
		if e.Rough {
			rough = " (or fewer of these)"
		}
		fmt.Fprintf(&b, "never together: %s%s\n", strings.Join(e.Minimal, " + "), rough)
	}
	for _, m := range e.Nearest {
		fmt.Fprintf(&b, "nearest: %s\n", m)
	}
	return b.String()
}

// Explain says why the ask has no candidate. It looks at each tree that candidates would look at, once, and at little else.
func Explain(s *index.Snapshot, ask resource.Ask) Explanation { return Until(nil).Explain(s, ask) }

// Explain is the function Explain. What it says when Until has given it up is worth nothing.
func (stop Until) Explain(s *index.Snapshot, ask resource.Ask) Explanation {
	x := newExplainer(s, ask, stop)
	if x.plan.nothing != "" || len(x.plan.items) == 0 {
		if x.plan.nothing == "" {
			x.plan.nothing = "the ask has no group with resources"
		}
		return Explanation{Reason: x.plan.nothing, Funnel: []Step{{"hosts", s.Len()}}}
	}
	if s.Len() == 0 {
		return Explanation{Reason: "there are no providers at all", Funnel: []Step{{"hosts", 0}}}
	}
	if !x.pass() {
		return stop.flat(s, ask)
	}
	e := Explanation{Funnel: x.funnel(), Nearest: x.nearest()}
	e.Reason = x.reason(e.Nearest)
	e.Minimal, e.Rough = x.minimal()
	return e
}

// flat is the explanation of an ask of which only Flat may be in the way.
func (stop Until) flat(s *index.Snapshot, ask resource.Ask) Explanation {
	if !ask.Flat {
		return Explanation{}
	}
	for range stop.AllPlaced(s, ask) {
		return Explanation{}
	}
	return Explanation{Reason: "there are candidates, but all take from several providers of one tree, which are told of from microversion 1.29 on",
		Funnel: []Step{{"hosts", s.Len()}, {"have all on one provider", 0}}}
}

// funnel counts the hosts left after each stage. A stage that takes none away is left out, and so is all after the one
// that takes the last.
func (x *explainer) funnel() []Step {
	steps := make([]Step, 1, 4)
	steps[0] = Step{"hosts", x.snapshot.Len()}
	for i := range x.stages {
		if left := x.passing(i); left < steps[len(steps)-1].Left {
			steps = append(steps, Step{x.have(i), left})
		}
	}
	return steps
}

// reason puts the end of the funnel into one line.
func (x *explainer) reason(nearest []Miss) string {
	furthest := x.furthest()
	last, left, before := x.stages[furthest], x.snapshot.Len(), -1
	for i := range furthest {
		if n := x.passing(i); n < left {
			left, before = n, i
		}
	}
	near := ""
	if last.rule >= free && len(nearest) > 0 {
		near = " (nearest: " + nearest[0].String() + ")"
	}
	taken := ""
	if last.rule == free {
		taken = x.taken(left)
	}
	switch {
	case last.rule == narrowed:
		return x.narrow.nobody(x.plan)
	case taken != "":
		return taken + near
	case before < 0:
		return "of " + hosts(left) + ", none " + verb(x.have(furthest), 1) + near
	}
	return hosts(left) + " " + verb(x.have(before), left) + ", none " + verb(x.have(furthest), 1) + near
}

// taken says that all units of the class that is not free anywhere are held, or all reserved; nothing when it is not
// so.
func (x *explainer) taken(left int) string {
	var units supply
	for i := range x.classes {
		if st := &x.classes[i]; st.stage == x.furthest() {
			units.free = plus(units.free, multiple(st.free, st.count))
			units.of = plus(units.of, multiple(st.of, st.count))
			units.reserved = plus(units.reserved, multiple(st.reserved, st.count))
		}
	}
	has := hosts(left) + " " + verb("have "+x.plan.kinds[x.stages[x.furthest()].at].what(), left)
	switch {
	case units.free > 0 || plus(units.of, units.reserved) == 0:
		return ""
	case units.of == 0:
		return fmt.Sprintf("%s but all %d are reserved", has, units.reserved)
	}
	return fmt.Sprintf("%s but all %d are taken", has, units.of)
}

func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return strconv.Itoa(n) + " hosts"
}

// verb makes `have ...`, `hold ...` and `offer ...` agree with the number of hosts.
func verb(clause string, n int) string {
	if n != 1 {
		return clause
	}
	word, rest, _ := strings.Cut(clause, " ")
	if word == "have" {
		return "has " + rest
	}
	return word + "s " + rest
}
