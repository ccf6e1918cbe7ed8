package lifecycle

// Step is an operation on another service that a server needs.
type Step string

// The steps. Each may be repeated, also when its outcome is unknown.
const (
	// build the request to Placement from the flavor and the image → Prepared or Refused
	Prepare            Step = "prepare"
	Schedule           Step = "schedule" // request and filter candidates → Chosen, NoValidHost or Refused
	Claim              Step = "claim"    // claim Choices[0] in Placement → Claimed, ClaimLost or Refused
	CheckMinCount      Step = "muster"   // check the other servers of the request → MinCountReached or MinCountFailed
	Release            Step = "release"  // release all allocations of the server's own consumer → Released
	MoveAllocations    Step = "rekey"    // move the server's allocations to its migration → AllocationsMoved or Refused
	RestoreAllocations Step = "restore"  // move the migration's allocations to the server → AllocationsRestored
	// release the allocations of the first leftover that is gone → LeftoverReleased
	ReleaseLeftover Step = "drop"
)
