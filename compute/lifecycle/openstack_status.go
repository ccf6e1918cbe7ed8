package lifecycle

import (
	"slices"
	"strings"
)

// VMState returns OpenStack's OS-EXT-STS:vm_state.
func (s Server) VMState() string {
	moved := s.Move != nil && (s.Move.Phase == Resized || s.Move.RevertRequested)
	switch {
	case s.State == Deleted, !s.Ended.IsZero():
		return "deleted"
	case s.IsSoftDeleted() && s.Task != SoftDeleting:
		return "soft-delete"
	case !s.ShelvedAt.IsZero():
		return "shelved"
	case s.Fault != nil && s.State != Failing:
		return "error"
	case s.Launched.IsZero() && s.State != Active:
		return "building"
	case s.Shelved && (s.State == Shelving || s.State == Offloading):
		return "shelved"
	case s.Shelved:
		return "shelved_offloaded"
	case moved:
		return "resized"
	case s.Rescued != "":
		return "rescued"
	case s.Actual == Off:
		return "stopped"
	case s.Actual.holds():
		return string(s.Actual)
	}
	return "active"
}

// IsSoftDeleted reports whether the server is deleted and can be restored: its guest is stopped, or is about to be.
func (s Server) IsSoftDeleted() bool { return !s.SoftDeleted.IsZero() }

// TaskState returns OpenStack's OS-EXT-STS:task_state: the action in progress, or empty.
func (s Server) TaskState() string {
	if s.Move != nil && s.Requested.IsZero() {
		return s.Move.taskState()
	}
	switch s.State {
	case Preparing, Scheduling, Claiming, AwaitingMinCount, Rescheduling:
		if s.Shelved {
			return "unshelving"
		}
		return "scheduling"
	case BindingPorts, Spawning:
		if s.Shelved {
			return "unshelving"
		}
		return "spawning"
	case Active:
		return string(s.Task)
	case Shelving, Offloading:
		return "shelving_offloading"
	case DeletingGuest, DeletingAllocation, DeletedAwaitingCleanup,
		Moving: // the deletion waits for the allocations to be moved or restored
		return "deleting"
	}
	return ""
}

// taskState returns the task_state of a server with this move.
func (m Move) taskState() string {
	switch {
	case m.Phase == Resized, m.Phase == RevertBlocked:
		return ""
	case m.RevertRequested:
		return string(ResizeReverting)
	case m.Kind == Evacuating:
		return string(Rebuilding)
	case m.Kind == LiveMigration:
		return string(MigratingLive)
	case m.Phase == BindingDestination, m.Phase == SpawningDestination:
		return "resize_finish"
	case m.Phase == StoppingSource:
		return "resize_migrating"
	}
	return "resize_prep"
}

// Statuses that compute looks for.
const (
	StatusShelved     = "SHELVED"
	StatusSoftDeleted = "SOFT_DELETED"
)

// Status returns the status shown by the Compute API, such as ACTIVE, BUILD or SHUTOFF. It follows from VMState and
// TaskState.
func (s Server) Status() string {
	task := s.TaskState()
	switch vm := s.VMState(); {
	case vm == "deleted":
		return "DELETED"
	case vm == "soft-delete":
		return StatusSoftDeleted
	case vm == "error" && task != string(Rebuilding):
		return "ERROR"
	case vm == "building":
		return "BUILD"
	case vm == "shelved":
		return StatusShelved
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
	case vm == "rescued":
		return "RESCUE"
	case vm == string(Paused), vm == string(Suspended):
		return strings.ToUpper(vm)
	case task == string(Rebooting), task == string(RebootStarted):
		return "REBOOT"
	case task == string(RebootingHard), task == string(RebootStartedHard):
		return "HARD_REBOOT"
	case vm == "stopped":
		return "SHUTOFF"
	}
	return "ACTIVE"
}
