package candidate

import (
	"cmp"
	"fmt"
	"slices"
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
	Nearest []Miss   // up to three hosts that came closest
}

// Step is one clause of the funnel.
type Step struct {
	Clause string
	Left   int // hosts (trees) for which this clause and all before it hold
}

// String is such as `12 offer CUSTOM_NIC`.
func (s Step) String() string { return fmt.Sprintf("%d %s", s.Left, s.Clause) }

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
}

// String is such as `CUSTOM_NIC: asks 8, 7 of 8 free`.
func (d Deficit) String() string {
	name := string(d.Class)
	if name == "" {
		name = "a provider"
	}
	switch {
	case d.Cause == Absent:
		return fmt.Sprintf("%s: asks %d, none here", name, d.Asks)
	case d.Cause == Excluded && d.Class == "":
		return d.Note
	case d.Cause == Excluded:
		return fmt.Sprintf("%s: none %s", name, d.Note)
	}
	text := fmt.Sprintf("%s: asks %d, %d of %d free", name, d.Asks, d.Free, d.Of)
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
		fmt.Fprintf(&b, "never together: %s\n", strings.Join(e.Minimal, " + "))
	}
	for _, m := range e.Nearest {
		fmt.Fprintf(&b, "nearest: %s\n", m)
	}
	return b.String()
}

// Explain says why the ask has no candidate.
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
		return Explanation{}
	}
	e := Explanation{Funnel: x.funnel(), Nearest: x.nearest()}
	e.Reason = x.reason(e.Nearest)
	e.Minimal = x.minimal()
	return e
}

// mostMisses is how many of the nearest hosts are told.
const mostMisses = 3

// explainer goes through all hosts once and remembers how far each came.
type explainer struct {
	snapshot *index.Snapshot
	ask      resource.Ask
	stop     Until
	plan     *plan
	host     *host
	loose    *host // the plan without group_policy and same_subtree
	apart    *host // the plan with group_policy, without same_subtree; nil when it is the same as another
	stages   []stage
	sharers  []index.Place
	hosts    []standing
	counted  []bool
	near     []index.Place
}

// standing is how far one tree came, and what it has of what it lacks there.
type standing struct {
	tree     *index.Tree
	stage    int     // the one that it fails
	lack     float64 // how much is lacking, in parts of what is asked
	free, of int     // units of a class that is not free anywhere
	reserved int     // and how many more there would be if nothing were reserved
	alone    bool    // it is the amount that is not free, whatever the conditions
	core     []bool  // pieces of the ask that it cannot meet together; nil while that is not known
}

func newExplainer(s *index.Snapshot, ask resource.Ask, stop Until) *explainer {
	x := &explainer{snapshot: s, ask: ask, stop: stop, plan: compile(s, ask, stop), sharers: slices.Collect(s.Sharers())}
	x.host = newHost(x.plan)
	x.loose = x.host
	if len(x.plan.subtrees) > 0 || x.plan.isolate {
		ask.SameSubtree = nil
		if len(x.plan.subtrees) > 0 && x.plan.isolate {
			x.apart = newHost(compile(s, ask, stop))
		}
		ask.GroupPolicy = resource.PolicyNone
		x.loose = newHost(compile(s, ask, stop))
	}
	x.stages = x.plan.stages(x.loose.plan, rootWords(ask))
	return x
}

// pass finds for each host the stage it fails; it stops and says false when a host fails none.
func (x *explainer) pass() bool {
	x.hosts = make([]standing, 0, x.snapshot.Len())
	for t := range x.snapshot.Trees() {
		st := standing{tree: t}
		if st.stage = x.reach(&st); st.stage == len(x.stages) {
			return false
		}
		x.hosts = append(x.hosts, st)
	}
	slices.SortStableFunc(x.hosts, func(a, b standing) int { return cmp.Compare(b.stage, a.stage) })
	return true
}

// furthest is the last stage that any host has reached: the one that takes the last of them.
func (x *explainer) furthest() int { return x.hosts[0].stage }

// passing counts the hosts that pass a stage and all before it.
func (x *explainer) passing(stage int) int {
	n := slices.IndexFunc(x.hosts, func(st standing) bool { return st.stage <= stage })
	if n < 0 {
		return len(x.hosts)
	}
	return n
}

// funnel counts the hosts left after each stage. A stage that takes none away is left out, and so is all after the one
// that takes the last.
func (x *explainer) funnel() []Step {
	steps := []Step{{"hosts", len(x.hosts)}}
	for i, s := range x.stages {
		if left := x.passing(i); left < steps[len(steps)-1].Left {
			steps = append(steps, Step{s.clause, left})
		}
	}
	return steps
}

// nearest tells of the hosts that came furthest those that lack least; of equal ones, the first by name.
func (x *explainer) nearest() []Miss {
	var best []standing
	for _, st := range x.hosts[:x.passing(x.furthest()-1)] {
		at, _ := slices.BinarySearchFunc(best, st, func(a, b standing) int {
			return cmp.Or(cmp.Compare(a.lack, b.lack), strings.Compare(hostName(a.tree), hostName(b.tree)))
		})
		if at < mostMisses {
			best = slices.Insert(best, at, st)
			best = best[:min(len(best), mostMisses)]
		}
	}
	out := make([]Miss, len(best))
	for i, st := range best {
		out[i] = Miss{Root: st.tree.Root, Host: hostName(st.tree), Deficits: x.deficits(st.tree, x.stages[st.stage])}
	}
	return out
}

func hostName(t *index.Tree) string {
	if top := t.Top(); top != nil {
		return top.Name
	}
	return string(t.Root)
}

// reason puts the end of the funnel into one line.
func (x *explainer) reason(nearest []Miss) string {
	last := x.stages[x.furthest()]
	left, had := len(x.hosts), ""
	for i := range x.furthest() {
		if n := x.passing(i); n < left {
			left, had = n, x.stages[i].clause
		}
	}
	near := ""
	if last.rule >= free {
		near = fmt.Sprintf(" (nearest: %s)", nearest[0])
	}
	switch {
	case last.rule == offered && x.snapshot.Offering(x.plan.classes[last.at]).Len() == 0:
		return "no provider offers " + string(x.plan.names[last.at])
	case last.rule == free && x.taken(left) != "":
		return x.taken(left) + near
	case had == "":
		return fmt.Sprintf("of %s, %s%s", hosts(left), last.lack, near)
	}
	return fmt.Sprintf("%s %s, %s%s", hosts(left), verb(had, left), last.lack, near)
}

// taken says that all units of the class that is not free anywhere are held, or all reserved; nothing when it is not
// so.
func (x *explainer) taken(left int) string {
	var sum standing
	for _, st := range x.hosts[:left] {
		sum.free, sum.of, sum.reserved = sum.free+st.free, sum.of+st.of, sum.reserved+st.reserved
	}
	has := hosts(left) + " " + verb("have "+x.plan.kinds[x.stages[x.furthest()].at].what(), left)
	switch {
	case sum.free > 0 || sum.of+sum.reserved == 0:
		return ""
	case sum.of == 0:
		return fmt.Sprintf("%s but all %d are reserved", has, sum.reserved)
	}
	return fmt.Sprintf("%s but all %d are taken", has, sum.of)
}

func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

// verb makes `have …` and `offer …` agree with the number of hosts.
func verb(clause string, n int) string {
	if n != 1 {
		return clause
	}
	if rest, ok := strings.CutPrefix(clause, "have "); ok {
		return "has " + rest
	}
	return strings.Replace(clause, "offer ", "offers ", 1)
}
