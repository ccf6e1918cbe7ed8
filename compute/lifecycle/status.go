package lifecycle

import "slices"

// State is the state of a server.
type State string

// The states. The server's own consumer may hold allocations in Placement in the states from Claiming to
// DeletingAllocation, except Shelved. Before MovingAllocations has ended it holds those of the source.
const (
	Scheduling State = "scheduling" // holds nothing; candidates are requested
	// a move was requested; candidates are requested. Nothing has changed yet
	Planning          State = "planning"
	MovingAllocations State = "rekeying" // the server's allocations are moved to its migration
	// they are moved; the agent of the source has not acknowledged the migration yet
	AwaitingSourceAck State = "handing"
	Claiming          State = "claiming"  // the first choice is being claimed; the result is not known yet
	AwaitingMinCount  State = "mustering" // claimed; waiting for the other servers of the request
	StoppingSource    State = "halting"   // claimed; waiting for the guest at the source to stop
	// claimed; the agent of Host prepares the live migration and picks devices
	PreLiveMigration State = "receiving"
	LiveMigrating    State = "crossing" // the guest is being migrated live
	Spawning         State = "assigned" // claimed and in the assignments of Host; its agent builds the guest
	Active           State = "active"   // the guest exists, running or stopped
	Resized          State = "resized"  // the guest exists; the move waits to be confirmed or reverted
	// the guest failed on Host: the claim is released, then another host is tried
	Rescheduling State = "retreating"
	Failing      State = "failing" // failed permanently: the claim is released
	Error        State = "error"   // failed; holds nothing
	// the move is reverted; the agent of Host has not reported the guest gone yet
	Reverting            State = "reverting"
	ReleasingDestination State = "undoing" // the move is reverted: the claim on Host is released
	// the move is reverted: the migration's allocations are moved back to the server
	RestoringAllocations State = "restoring"
	// Placement refuses that repeatedly; an operator must repair it. The guest runs under the migration's id
	RevertBlocked State = "stranded"
	Shelving      State = "shelving"   // to be shelved; the agent of Host has not reported the guest gone yet
	Offloading    State = "offloading" // to be shelved: the claim is released
	Shelved       State = "shelved"    // shelved; holds nothing
	// to be deleted, not assigned; the agent has not reported the guest gone yet
	DeletingGuest          State = "unassigning"
	DeletingAllocation     State = "releasing" // to be deleted, no guest left: the claim is released
	DeletedAwaitingCleanup State = "lingering" // deleted, except for its leftovers on hosts
	Deleted                State = "deleted"   // holds nothing; kept for queries only
)

// States lists all states except the empty one before Created.
func States() []State {
	return []State{
		Scheduling, Planning, MovingAllocations, AwaitingSourceAck, Claiming, AwaitingMinCount,
		StoppingSource, PreLiveMigration, LiveMigrating, Spawning, Active, Resized,
		Rescheduling, Failing, Error, Reverting, ReleasingDestination, RestoringAllocations, RevertBlocked,
		Shelving, Offloading, Shelved, DeletingGuest, DeletingAllocation, DeletedAwaitingCleanup, Deleted,
	}
}

// Steps lists the steps that are due in this state. A state without steps waits for an agent or a user, or is final.
func (s State) Steps() []Step {
	switch s {
	case Scheduling, Planning:
		return []Step{Schedule}
	case MovingAllocations:
		return []Step{MoveAllocations}
	case Claiming:
		return []Step{Claim}
	case AwaitingMinCount:
		return []Step{CheckMinCount}
	case RestoringAllocations:
		return []Step{RestoreAllocations}
	case Rescheduling, Failing, ReleasingDestination, Offloading, DeletingAllocation:
		return []Step{Release}
	}
	return nil
}

// Task is OpenStack's OS-EXT-STS:task_state: the action in progress, or empty.
type Task string

// The tasks that end with a report of an agent.
const (
	PoweringOff       Task = "powering-off"
	PoweringOn        Task = "powering-on"
	Rebooting         Task = "rebooting" // the guest must stop first
	RebootingHard     Task = "rebooting_hard"
	RebootStarted     Task = "reboot_started" // the guest has stopped and must start
	RebootStartedHard Task = "reboot_started_hard"
	Rebuilding        Task = "rebuilding"
	ResizeReverting   Task = "resize_reverting"
	MigratingLive     Task = "migrating"
)

// VMState returns OpenStack's OS-EXT-STS:vm_state.
func (s Server) VMState() string {
	moved := s.State == Resized || s.Move != nil && s.Move.Reverting
	switch {
	case s.State == Deleted, !s.Ended.IsZero():
		return "deleted"
	case s.Fault != nil && s.State != Failing:
		return "error"
	case s.Launched.IsZero() && s.State != Active:
		return "building"
	case s.Shelved && s.State != Shelving && s.State != Offloading:
		return "shelved_offloaded"
	case moved:
		return "resized"
	case s.Stopped:
		return "stopped"
	}
	return "active"
}

// TaskState returns OpenStack's OS-EXT-STS:task_state: the action in progress, or empty.
func (s Server) TaskState() string {
	if s.Move != nil && s.Requested.IsZero() {
		return s.Move.taskState(s.State)
	}
	switch s.State {
	case Scheduling, Claiming, AwaitingMinCount, Rescheduling:
		if s.Shelved {
			return "unshelving"
		}
		return "scheduling"
	case Spawning:
		if s.Shelved {
			return "unshelving"
		}
		return "spawning"
	case Active:
		return string(s.Task)
	case Shelving, Offloading:
		return "shelving_offloading"
	case MovingAllocations, RestoringAllocations, // a deletion waits for their end
		DeletingGuest, DeletingAllocation, DeletedAwaitingCleanup:
		return "deleting"
	}
	return ""
}

// taskState returns the task_state of a server with this move in state s.
func (m Move) taskState(s State) string {
	switch {
	case s == Resized, s == RevertBlocked:
		return ""
	case m.Reverting:
		return string(ResizeReverting)
	case m.Kind == Evacuating:
		return string(Rebuilding)
	case m.Kind == LiveMigration:
		return string(MigratingLive)
	case s == Spawning:
		return "resize_finish"
	case s == StoppingSource:
		return "resize_migrating"
	}
	return "resize_prep"
}

// Status returns the status shown by the Compute API, such as ACTIVE, BUILD or SHUTOFF. It follows from VMState and
// TaskState.
func (s Server) Status() string {
	task := s.TaskState()
	switch vm := s.VMState(); {
	case vm == "deleted":
		return "DELETED"
	case vm == "error" && task != string(Rebuilding):
		return "ERROR"
	case vm == "building":
		return "BUILD"
	case vm == "shelved_offloaded":
		return "SHELVED_OFFLOADED"
	case vm == "resized" && task == string(ResizeReverting):
		return "REVERT_RESIZE"
	case vm == "resized":
		return "VERIFY_RESIZE"
	case slices.Contains([]string{"resize_prep", "resize_migrating", "resize_finish"}, task):
		return "RESIZE"
	case task == string(Rebuilding):
		return "REBUILD"
	case task == string(MigratingLive):
		return "MIGRATING"
	case task == string(Rebooting), task == string(RebootStarted):
		return "REBOOT"
	case task == string(RebootingHard), task == string(RebootStartedHard):
		return "HARD_REBOOT"
	case vm == "stopped":
		return "SHUTOFF"
	}
	return "ACTIVE"
}
