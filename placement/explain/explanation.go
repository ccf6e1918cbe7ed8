package explain

import (
	"fmt"

	"strings"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Explanation is why an ask has no candidate. It is the zero value if there is a candidate.
type Explanation struct {
	Reason  string        // one line, for a log or an error message
	Funnel  []FunnelRow   // how many hosts are left after each clause; the first row is all hosts
	Minimal []string      // clauses that no host meets together
	Rough   bool          // some clauses of Minimal may be left out: the search for fewer was stopped
	Help    Help          // the clause that is most in the way
	Nearest []NearestMiss // up to three hosts that came closest
}

// FunnelRow is one clause of the funnel.
type FunnelRow struct {
	Clause  string
	Left    int      // the hosts (trees) that meet this clause and all before it
	Removed []string // names of hosts that meet all clauses before it, but not this one: the first mostNamed
}

// String returns a line such as `12 offer CUSTOM_NIC`.
func (r FunnelRow) String() string { return fmt.Sprintf("%d %s", r.Left, r.Clause) }

// NearestMiss is a host that came close, and what it lacks.
type NearestMiss struct {
	Root     provider.ID
	Host     string // the name of the root
	Deficits []Deficit
}

// Cause is the reason why something is lacking.
type Cause string

// The causes of a deficit.
const (
	Absent    Cause = "absent"    // no provider here offers the class
	Excluded  Cause = "excluded"  // the providers here lack the traits, aggregates or tree asked for
	Forbidden Cause = "forbidden" // the providers here have a trait or aggregate that the ask forbids
	Held      Cause = "held"      // consumers hold it
	Reserved  Cause = "reserved"  // the operator has reserved it
	Small     Cause = "small"     // the host has less of it than asked, even without consumers
	Shape     Cause = "shape"     // min_unit, max_unit or step_size do not allow the amount
	Contended Cause = "contended" // there is enough, but the groups cannot all be served at once
)

// Deficit is what one host lacks of one resource class.
type Deficit struct {
	Class resource.Class // "" for a group without resources
	Cause Cause
	Asks  int           // units asked for
	Free  int           // units that could be had
	Of    int           // units that the providers in question have for consumers
	Note  string        // details: the traits that are missing, the rule that forbids
	Taken []provider.ID // a few of the providers in question that have consumers
}

// String returns a text such as `CUSTOM_NIC: asks 8, 7 of 8 free`.
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
		return name + ": none " + d.Note
	case d.Cause == Forbidden:
		return name + ": none " + d.Note + "; those here are forbidden"
	}
	text := fmt.Sprintf("%s: asks %d, %d of %d free", name, d.Asks, d.Free, d.Of)
	if d.Note != "" {
		text += " (" + d.Note + ")"
	}
	return text
}

// String returns a text such as `cmp-17: CUSTOM_NIC: asks 8, 7 of 8 free`.
func (m NearestMiss) String() string {
	parts := make([]string, len(m.Deficits))
	for i, d := range m.Deficits {
		parts[i] = d.String()
	}
	return m.Host + ": " + strings.Join(parts, "; ")
}

// String returns the whole explanation for people, in several lines.
func (e Explanation) String() string {
	if e.Reason == "" {
		return "there are candidates\n"
	}
	var b strings.Builder
	fmt.Fprintln(&b, e.Reason)
	for _, row := range e.Funnel {
		fmt.Fprintf(&b, "%8d %s\n", row.Left, row.Clause)
	}
	if len(e.Minimal) > 0 {
		rough := ""
		if e.Rough {
			rough = " (or fewer of these)"
		}
		fmt.Fprintf(&b, "never together: %s%s\n", strings.Join(e.Minimal, " + "), rough)
	}
	if e.Help.Clause != "" {
		fmt.Fprintln(&b, e.Help)
	}
	for _, m := range e.Nearest {
		fmt.Fprintf(&b, "nearest: %s\n", m)
	}
	return b.String()
}
