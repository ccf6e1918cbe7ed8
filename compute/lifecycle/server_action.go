package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// Action is an action on a server, as the Compute API names it.
type Action string

// The actions.
const (
	Start    Action = "start"
	Stop     Action = "stop"
	Reboot   Action = "reboot"
	Rebuild  Action = "rebuild"
	Resize   Action = "resize"
	Migrate  Action = "migrate"
	Live     Action = "os-migrateLive"
	Evacuate Action = "evacuate"
	Confirm  Action = "confirmResize"
	Revert   Action = "revertResize"
	Shelve   Action = "shelve"
	Offload  Action = "shelveOffload"
	Unshelve Action = "unshelve"
	Reset    Action = "os-resetState"
)

// Refuse returns why an action cannot start now, in the words of the Compute API, or an empty string if it can. hard
// matters only to Reboot.
func (s Server) Refuse(a Action, hard bool) string {
	vm, task := s.VMState(), s.TaskState()
	if a == Reset {
		if s.State != Active && s.Phase() != Resized && s.Phase() != RevertBlocked {
			return fmt.Sprintf("Cannot '%s' instance %s: in state %s it has no guest whose state could be set",
				a, s.ID, s.Stage())
		}
		return ""
	}
	var allowed []string
	switch a {
	case Start:
		allowed = []string{"stopped"}
	case Stop:
		allowed = []string{"active", "error"}
	case Reboot:
		allowed = []string{"active"}
		if hard {
			allowed = []string{"active", "stopped", "error"}
		}
	case Rebuild, Evacuate:
		allowed = []string{"active", "stopped", "error"}
	case Resize, Migrate, Shelve:
		allowed = []string{"active", "stopped"}
	case Live:
		allowed = []string{"active"}
	case Confirm, Revert:
		allowed = []string{"resized"}
	case Offload:
		allowed = []string{"shelved"} // shelving offloads at once, so no server has this state
	case Unshelve:
		allowed = []string{"shelved_offloaded"}
	}
	if vm == "error" && s.State != Active { // it has no guest for the action
		allowed = nil
	}
	if !slices.Contains(allowed, vm) {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", a, s.ID, vm)
	}
	again := a == Reboot && hard &&
		slices.Contains([]Task{Rebooting, RebootStarted, RebootingHard, RebootStartedHard}, s.Task)
	if task != "" && !again && (a != Evacuate || s.State != Active) {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", a, s.ID, task)
	}
	return ""
}

// applyAction starts the action unless Refuse refuses it.
func applyAction(s Server, e ActionRequested, now time.Time) Server {
	if s.Refuse(e.Action, e.Hard) != "" {
		return s
	}
	s.LastAction, s.Refusal = e.ID, nil
	switch e.Action {
	case Start:
		s.Power, s.Task = On, PoweringOn
	case Stop:
		s.Power, s.Task = Off, PoweringOff
	case Reboot:
		s.Task = Rebooting
		if e.Hard {
			s.Task = RebootingHard
		}
		if s.Stopped {
			s.Task = RebootStartedHard
		}
		s.Power = On
	case Rebuild:
		s = beginRebuild(s, e)
	case Resize:
		return beginMove(s, Resizing, e, now)
	case Migrate:
		return beginMove(s, Migrating, e, now)
	case Live:
		return beginMove(s, LiveMigration, e, now)
	case Evacuate:
		return beginMove(s, Evacuating, e, now)
	case Confirm:
		return advance(s, moveConfirmed{}, now)
	case Revert:
		return advance(s, moveReverted{s.Host}, now)
	case Shelve:
		s.State, s.Task, s.Shelved = Shelving, "", true
		return addHistory(s, now, "shelving; removing the guest on "+s.Host)
	case Unshelve:
		s.State, s.Round, s.FailedHosts = Scheduling, 0, nil
		return addHistory(s, now, "unshelving: "+describe(s.Ask, s.Requests))
	case Reset:
		return resetState(s, e.ToError, now)
	}
	return addHistory(s, now, fmt.Sprintf("%s requested: %s", e.Action, s.Task))
}

// resetState sets or clears the state ERROR for an operator. The guest on the host is unchanged.
func resetState(s Server, toError bool, now time.Time) Server {
	if s.Phase() == RevertBlocked {
		if toError {
			return s // RevertBlocked is shown as ERROR
		}
		return advance(s, restoreRetried{}, now)
	}
	s.Task, s.Fault = "", nil
	if toError {
		s.Fault = &Fault{Code: 500, Message: "The state was set to ERROR by an operator.", Created: now}
		return addHistory(s, now, "state set to ERROR by an operator")
	}
	return addHistory(s, now, "state ERROR cleared by an operator")
}
