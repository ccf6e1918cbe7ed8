package lifecycle

// The phases. Before MovingAllocations has ended, the server's own consumer holds the allocations of the source. Then
// the migration holds them, and the server's own consumer holds those of the destination.
const (
	// the request to Placement is built for the new flavor; nothing has changed yet. Only a resize has this phase
	PreparingMove     MovePhase = "preparing"
	Planning          MovePhase = "planning"           // candidates are requested; nothing has changed yet
	MovingAllocations MovePhase = "moving_allocations" // the server's allocations are moved to its migration
	// they are moved; the agent of the source has not acknowledged the migration yet
	AwaitingSourceAck     MovePhase = "awaiting_source_ack"
	SchedulingDestination MovePhase = "scheduling" // candidates are requested again
	// the first choice is being claimed; the result is not known yet
	ClaimingDestination MovePhase = "claiming"
	StoppingSource      MovePhase = "stopping_source" // claimed; waiting for the guest at the source to stop
	// claimed; the agent of the destination prepares the live migration and picks devices
	PreLiveMigration MovePhase = "pre_live_migration"
	LiveMigrating    MovePhase = "live_migrating" // the guest is being migrated live
	// claimed; the source has stopped, and the ports are bound to the destination. In a live migration the source runs,
	// and the ports get inactive bindings to the destination
	BindingDestination  MovePhase = "binding_ports"
	SpawningDestination MovePhase = "spawning" // claimed; the agent of the destination builds the guest
	// the guest exists at the destination; the move waits to be confirmed or reverted
	Resized MovePhase = "resized"
	// the guest failed at the destination: the claim is released, then another host is tried
	ReschedulingDestination MovePhase = "rescheduling"
	// the server goes back; the agent of the destination has not reported the guest gone yet
	Reverting MovePhase = "reverting"
	// the server goes back: the claim at the destination is released
	ReleasingDestination MovePhase = "releasing_destination"
	// the server goes back: the migration's allocations are moved to the server
	RestoringAllocations MovePhase = "restoring_allocations"
	// Placement refuses that repeatedly; an operator must repair it. The guest runs under the migration's id
	RevertBlocked MovePhase = "revert_blocked"
)

// MovePhases lists all phases.
func MovePhases() []MovePhase {
	return []MovePhase{
		PreparingMove, Planning, MovingAllocations, AwaitingSourceAck, SchedulingDestination, ClaimingDestination,
		StoppingSource,
		PreLiveMigration, LiveMigrating, BindingDestination, SpawningDestination, Resized, ReschedulingDestination, Reverting,
		ReleasingDestination, RestoringAllocations, RevertBlocked,
	}
}
