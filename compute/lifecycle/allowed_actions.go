package lifecycle

import (
	"fmt"
	"slices"
)

// Refuse returns why an action cannot start now, in the words of the Compute API, or an empty string if it can. hard
// matters only to Reboot.
func (s Server) Refuse(a Action, hard bool) string {
	vm, task := s.VMState(), s.TaskState()
	switch a {
	case Reset:
		return s.refuseReset()
	case AbortLive, ForceLive:
		return s.refuseLiveRequest(a)
	}
	if s.PortChange != nil || len(s.PortQueue) > 0 {
		return fmt.Sprintf("Cannot '%s' instance %s while its ports are being changed", a, s.ID)
	}
	if a == Evacuate && s.uploadsDisk() && s.ShelvedImage.Copy == nil && s.ShelvedImage.SHA512 != "" {
		return fmt.Sprintf("Cannot '%s' instance %s: it is being shelved, and its disk, which it would lose, is in the "+
			"image %s; declare the host dead (`berth host down %s`) so that the shelving ends, and unshelve it", a, s.ID,
			s.ShelvedImage.ID, s.Host)
	}
	if s.State == Failing { // nothing is left of its guest
		return fmt.Sprintf("Cannot '%s' instance %s while what it held is released", a, s.ID)
	}
	if a == Restore && s.State != Active {
		return fmt.Sprintf("Cannot '%s' instance %s: its guest on %s is lost", a, s.ID, s.Host)
	}
	allowed := s.allowedStates(a, hard)
	if !slices.Contains(allowed, vm) || vm == "error" && s.State != Active { // then it has no guest for the action
		return fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", a, s.ID, vm)
	}
	if a == Suspend && len(s.Devices) > 0 {
		return s.refuseSuspend()
	}
	again := a == Reboot && hard &&
		slices.Contains([]Task{Rebooting, RebootStarted, RebootingHard, RebootStartedHard}, s.Task)
	if task != "" && !again && (a != Evacuate || s.State != Active) {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", a, s.ID, task)
	}
	return ""
}

// allowedStates lists the values of vm_state in which an action may start.
func (s Server) allowedStates(a Action, hard bool) (allowed []string) {
	switch a {
	case Start:
		allowed = []string{"stopped"}
	case Stop:
		allowed = []string{"active", "error"}
		if s.Power == On { // its guest has ended, and the agent tries to start it
			allowed = append(allowed, "stopped")
		}
	case Reboot:
		allowed = []string{"active"}
		if hard {
			allowed = []string{"active", "stopped", "paused", "suspended", "error"}
		}
	case Pause, Suspend, Live:
		allowed = []string{"active"}
	case Unpause:
		allowed = []string{"paused"}
	case Resume:
		allowed = []string{"suspended"}
	case Unrescue:
		allowed = []string{"rescued"}
	case Rebuild, Evacuate, Rescue:
		allowed = []string{"active", "stopped", "error"}
		if a == Evacuate && s.Task == Restoring {
			allowed = append(allowed, "soft-delete")
		}
	case Resize, Migrate:
		allowed = []string{"active", "stopped"}
	case Shelve, Snapshot, Backup:
		allowed = []string{"active", "stopped", "paused", "suspended"}
	case Confirm, Revert:
		allowed = []string{"resized"}
	case Offload:
		allowed = []string{"shelved"}
	case Unshelve:
		allowed = []string{"shelved", "shelved_offloaded"}
	case Restore:
		allowed = []string{"soft-delete"}
	}
	return allowed
}

// refuseReset returns why the state of the server cannot be set, or an empty string if it can.
func (s Server) refuseReset() string {
	if s.State == Active || s.Phase() == Resized || s.Phase() == RevertBlocked {
		return ""
	}
	return fmt.Sprintf("Cannot '%s' instance %s: in state %s it has no guest whose state could be set", Reset, s.ID,
		s.Stage())
}

// refuseSuspend returns why a server with devices cannot be suspended.
func (s Server) refuseSuspend() string {
	return fmt.Sprintf("Cannot '%s' instance %s: it has devices of the host (%s), whose state cannot be saved; pause, "+
		"stop or shelve it", Suspend, s.ID, s.Devices[0].Address)
}
