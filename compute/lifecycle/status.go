package lifecycle

import "slices"

// State is where a server is on its way.
type State string

// The states. The claim of a server's own consumer may exist in Placement in those from Claiming to Releasing, but for Handing and
// Shelved.
const (
	Scheduling             State = "scheduling"  // holds nothing; candidates are to be asked for
	Planning               State = "planning"    // a move was asked for: candidates are to be asked for. Nothing has changed yet
	MovingAllocations      State = "rekeying"    // its migration is to hold what it holds
	AwaitingSourceAck      State = "handing"     // its migration does; the agent of the source has not said yet that it knows
	Claiming               State = "claiming"    // the first choice is to be claimed, or has been and we do not know it yet
	AwaitingMinCount       State = "mustering"   // it holds its claim and waits for the others of its request
	StoppingSource         State = "halting"     // it holds its claim and waits for the guest at the source to stop
	PreLiveMigration       State = "receiving"   // Host has been told of its arrival by live migration and is to claim the devices
	LiveMigrating          State = "crossing"    // it is being migrated live
	Spawning               State = "assigned"    // it holds its claim and stands in the assignments of Host, whose agent builds it
	Active                 State = "active"      // its guest is there, and runs or not as it shall
	Resized                State = "resized"     // its guest is there, and the move is to be confirmed or reverted
	Rescheduling           State = "retreating"  // the guest failed on Host: the claim is to be given back, then another host is tried
	Failing                State = "failing"     // it has failed for good: the claim is to be given back
	Error                  State = "error"       // it has failed and holds nothing
	Reverting              State = "reverting"   // a move is taken back; the agent of Host has not said yet that the guest is gone
	ReleasingDestination   State = "undoing"     // a move is taken back: the claim at Host is to be given back
	RestoringAllocations   State = "restoring"   // a move is taken back: what the migration holds is to be the server's again
	RevertBlocked          State = "stranded"    // Placement refuses that again and again: an operator has to see to it. The guest is there, under the migration's name
	Shelving               State = "shelving"    // it is to be shelved; the agent of Host has not said yet that the guest is gone
	Offloading             State = "offloading"  // it is to be shelved: the claim is to be given back
	Shelved                State = "shelved"     // it is shelved and holds nothing
	DeletingGuest          State = "unassigning" // it is to be deleted; out of the assignments, and the agent has not said yet that it is gone
	DeletingAllocation     State = "releasing"   // it is to be deleted and nothing of it is on a host: the claim is to be given back
	DeletedAwaitingCleanup State = "lingering"   // it is deleted, but for what it has left behind on hosts
	Deleted                State = "deleted"     // it holds nothing and is kept only to be asked about
)

// States lists all states but the one before Created, which is empty.
func States() []State {
	return []State{Scheduling, Planning, MovingAllocations, AwaitingSourceAck, Claiming, AwaitingMinCount, StoppingSource, PreLiveMigration, LiveMigrating, Spawning, Active, Resized,
		Rescheduling, Failing, Error, Reverting, ReleasingDestination, RestoringAllocations, RevertBlocked, Shelving, Offloading, Shelved, DeletingGuest, DeletingAllocation, DeletedAwaitingCleanup, Deleted}
}

// Steps lists what is to be done for a server in this state. A state without steps waits for somebody or is an end.
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

// Task is OpenStack's OS-EXT-STS:task_state: what is being done. Empty is nothing.
type Task string

// The tasks that an agent ends.
const (
	PoweringOff       Task = "powering-off"
	PoweringOn        Task = "powering-on"
	Rebooting         Task = "rebooting" // it is to stop first
	RebootingHard     Task = "rebooting_hard"
	RebootStarted     Task = "reboot_started" // it has stopped
	RebootStartedHard Task = "reboot_started_hard"
	Rebuilding        Task = "rebuilding"
	TakingBack        Task = "resize_reverting"
	Arriving          Task = "migrating"
)

// VMState is OpenStack's OS-EXT-STS:vm_state.
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

// TaskState is OpenStack's OS-EXT-STS:task_state: what is being done, or empty for nothing.
func (s Server) TaskState() string {
	if s.Move != nil && s.Requested.IsZero() {
		return s.Move.task(s.State)
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
	case MovingAllocations, RestoringAllocations, DeletingGuest, DeletingAllocation, DeletedAwaitingCleanup: // the first two with a deletion that waits for them
		return "deleting"
	}
	return ""
}

func (m Move) task(s State) string {
	switch {
	case s == Resized, s == RevertBlocked:
		return ""
	case m.Reverting:
		return string(TakingBack)
	case m.Kind == Evacuating:
		return string(Rebuilding)
	case m.Kind == LiveMigration:
		return string(Arriving)
	case s == Spawning:
		return "resize_finish"
	case s == StoppingSource:
		return "resize_migrating"
	}
	return "resize_prep"
}

// Status is the word that the Compute API shows; ACTIVE, BUILD, SHUTOFF, … It follows from VMState and TaskState.
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
	case vm == "resized" && task == string(TakingBack):
		return "REVERT_RESIZE"
	case vm == "resized":
		return "VERIFY_RESIZE"
	case slices.Contains([]string{"resize_prep", "resize_migrating", "resize_finish"}, task):
		return "RESIZE"
	case task == string(Rebuilding):
		return "REBUILD"
	case task == string(Arriving):
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
