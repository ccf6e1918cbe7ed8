package lifecycle

import (
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Server is the record of one server: everything that is known of it, and where it is on its way.
//
// Whoever makes one fills in the first block and gives it to Next with Created; only Next changes the rest.
type Server struct {
	ID, Name      string
	Description   string
	Project, User string
	Image         string // UUID, or empty
	KeyName       string
	Zone          string // availability zone, shown only
	Metadata      map[string]string
	Tags          []string
	Flavor        flavor.Flavor // as it was when the server was created
	Ask           resource.Ask  // the question to Placement
	Requests      []pci.Request // Providers are filled in when a choice has been claimed

	State     State
	Host      string            // where it is or was meant to be; empty before a choice
	Heard     bool              // the agent of Host has told of this server, so something of it may be there
	Round     int               // how often candidates have been asked for
	Try       int               // how many claims have been begun; it tells a late answer from one that is awaited
	Choices   []schedule.Choice // the first is being claimed or is claimed; the others are for when it is lost
	Excluded  map[string]string // hosts where the guest failed, and why
	Devices   []schedule.Picked // what the agent gave it
	Fault     *Fault            // why it is in ERROR
	Trail     []Mark            // what happened, oldest first; bounded
	Created   time.Time
	Updated   time.Time
	Launched  time.Time // when it first ran; zero before
	Ended     time.Time // when it was deleted; zero before
	Requested time.Time // when its deletion was asked for; zero before

	Revision int64 // of the record; the store counts it
}

// Fault is the sentence that a user reads on a server in ERROR.
type Fault struct {
	Code    int // as the Compute API has it: 500 for all that are made here
	Message string
	Details string // more sentences, for operators
	Created time.Time
}

// Mark is one line of a server's trail.
type Mark struct {
	At    time.Time // of the last time
	Text  string
	Times int // how often in a row the same was marked; 1 for once
}

// State is where a server is on its way.
type State string

// The states. The claim of a server that is in a state from Claiming to Releasing may exist in Placement.
const (
	Scheduling  State = "scheduling"  // holds nothing; candidates are to be asked for
	Claiming    State = "claiming"    // the first choice is to be claimed, or has been and we do not know it yet
	Assigned    State = "assigned"    // it holds its claim and stands in the assignments of Host, whose agent builds it
	Active      State = "active"      // its guest runs
	Retreating  State = "retreating"  // the guest failed on Host: the claim is to be given back, then another host is tried
	Failing     State = "failing"     // it has failed for good: the claim is to be given back
	Error       State = "error"       // it has failed and holds nothing
	Unassigning State = "unassigning" // it is to be deleted; out of the assignments, and the agent has not said yet that it is gone
	Releasing   State = "releasing"   // it is to be deleted and nothing of it is on a host: the claim is to be given back
	Deleted     State = "deleted"     // it holds nothing and is kept only to be asked about
)

// Step is something to be done for a server, outside of it.
type Step string

// The steps. Each may be repeated, also when nobody knows whether it was done.
const (
	Schedule Step = "schedule" // ask for candidates, judge them → Chosen, NothingFits or Refused
	Claim    Step = "claim"    // claim Choices[0] in Placement → Claimed, ClaimLost or Refused
	Release  Step = "release"  // give back whatever the server holds in Placement → Released
)

// Steps lists what is to be done for a server in this state. A state without steps waits for somebody or is an end.
func (s State) Steps() []Step {
	switch s {
	case Scheduling:
		return []Step{Schedule}
	case Claiming:
		return []Step{Claim}
	case Retreating, Failing, Releasing:
		return []Step{Release}
	}
	return nil
}

// Steps lists what is to be done for the server now.
func (s Server) Steps() []Step { return s.State.Steps() }

// Placed is the host whose devices the server may hold, or empty.
func (s Server) Placed() string {
	switch s.State {
	case Assigned, Active, Unassigning:
		return s.Host
	}
	return ""
}

// Assignment is the host in whose assignments the server stands, or empty. A server that is being deleted
// is still Placed but no longer assigned.
func (s Server) Assignment() string {
	switch s.State {
	case Assigned, Active:
		return s.Host
	}
	return ""
}

// Status is the word that the Compute API shows: BUILD, ACTIVE, ERROR or DELETED.
func (s Server) Status() string {
	switch {
	case s.State == Deleted:
		return "DELETED"
	case s.Fault != nil && s.State != Failing:
		return "ERROR"
	case s.State == Active, !s.Launched.IsZero():
		return "ACTIVE"
	}
	return "BUILD"
}

// VMState is OpenStack's OS-EXT-STS:vm_state.
func (s Server) VMState() string {
	switch s.Status() {
	case "DELETED":
		return "deleted"
	case "ERROR":
		return "error"
	case "ACTIVE":
		return "active"
	}
	return "building"
}

// TaskState is OpenStack's OS-EXT-STS:task_state: what is being done, or empty for nothing.
func (s Server) TaskState() string {
	switch s.State {
	case Scheduling, Claiming, Retreating:
		return "scheduling"
	case Assigned:
		return "spawning"
	case Unassigning, Releasing:
		return "deleting"
	}
	return ""
}
