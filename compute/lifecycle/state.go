package lifecycle

// State is the state of a server. While a move is in progress it is Moving, and Move.Phase has the details.
type State string

// The states. The server's own consumer may hold allocations in Placement in the states from Claiming to
// DeletingAllocation, except Shelved.
const (
	Preparing        State = "preparing"  // holds nothing; the request to Placement is built
	Scheduling       State = "scheduling" // holds nothing; candidates are requested
	Claiming         State = "claiming"   // the first choice is being claimed; the result is not known yet
	AwaitingMinCount State = "mustering"  // claimed; waiting for the other servers of the request
	Spawning         State = "assigned"   // claimed and in the assignments of Host; its agent builds the guest
	Active           State = "active"     // the guest exists, running or stopped
	Moving           State = "moving"     // a move is in progress; see MovePhase
	// the guest failed on Host: the claim is released, then another host is tried
	Rescheduling State = "retreating"
	Failing      State = "failing"    // failed permanently: the claim is released
	Error        State = "error"      // failed; holds nothing
	Shelving     State = "shelving"   // to be shelved; the agent of Host has not reported the guest gone yet
	Offloading   State = "offloading" // to be shelved: the claim is released
	Shelved      State = "shelved"    // shelved; holds nothing
	// to be deleted, not assigned; the agent has not reported the guest gone yet
	DeletingGuest          State = "unassigning"
	DeletingAllocation     State = "releasing" // to be deleted, no guest left: the claim is released
	DeletedAwaitingCleanup State = "lingering" // deleted, except for its leftovers on hosts
	Deleted                State = "deleted"   // holds nothing; kept for queries only
)

// States lists all states except the empty one before Created.
func States() []State {
	return []State{
		Preparing, Scheduling, Claiming, AwaitingMinCount, Spawning, Active, Moving, Rescheduling, Failing, Error,
		Shelving, Offloading, Shelved, DeletingGuest, DeletingAllocation, DeletedAwaitingCleanup, Deleted,
	}
}

// steps lists the steps that are due in this state. A state without steps waits for an agent or a user, or is final.
func (s State) steps() []Step {
	switch s {
	case Preparing:
		return []Step{Prepare}
	case Scheduling:
		return []Step{Schedule}
	case Claiming:
		return []Step{Claim}
	case AwaitingMinCount:
		return []Step{CheckMinCount}
	case Rescheduling, Failing, Offloading, DeletingAllocation:
		return []Step{Release}
	}
	return nil
}

// presence is what the server's own consumer has on Host.
type presence int

const (
	absent   presence = iota // holds nothing
	claiming                 // no guest; it may hold a claim, which must be released if it is not needed any more
	claimed                  // holds a claim; the host is not assigned the guest yet
	incoming                 // assigned; the guest arrives by live migration
	building                 // assigned; the agent builds the guest
	existing                 // assigned; the guest exists
	removing                 // not assigned any more; the agent must destroy the guest
)

// presence returns what a server in this state has on its host.
func (s State) presence() presence {
	switch s {
	case Claiming, Rescheduling, Failing, Offloading, DeletingAllocation:
		return claiming
	case AwaitingMinCount:
		return claimed
	case Spawning:
		return building
	case Active:
		return existing
	case Shelving, DeletingGuest:
		return removing
	}
	return absent
}
