package candidate

import (
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Explanation says why an ask has no candidate. It is the zero value when there is one.
type Explanation struct {
	Reason  string   // one line for a log or a fault message
	Funnel  []Step   // how many hosts are left after each clause, one upon the other
	Minimal []string // the clauses that cannot hold together: leaving out any one of them would help
	Nearest []Miss   // up to three hosts that came closest
}

// Step is one clause of the funnel.
type Step struct {
	Clause string
	Left   int // hosts for which this clause and all before it hold
}

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
	Absent    Cause = "absent"    // no provider here offers the class at all
	Held      Cause = "held"      // it is here, but consumers have it
	Reserved  Cause = "reserved"  // it is here, but the operator keeps it back
	Excluded  Cause = "excluded"  // it is here, but the wrong traits, aggregates or tree keep it out
	Shape     Cause = "shape"     // the amount is one that min_unit, max_unit or step_size never allows
	Contended Cause = "contended" // enough for each group alone, not for all together
)

// Deficit is what one host lacks of one class.
type Deficit struct {
	Class resource.Class
	Cause Cause
	Asks  int // units asked for
	Free  int // units that could be had
	Of    int // units that the providers in question have at all
}

// Explain says why the ask has no candidate.
func Explain(s *index.Snapshot, ask resource.Ask) Explanation { return Explanation{} }
