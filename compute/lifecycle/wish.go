package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/compute/flavor"
)

// Refuse says in the Compute API's sentence why an action cannot be begun now, or nothing when it can. hard matters to Reboot alone.
func (s Server) Refuse(a Action, hard bool) string {
	vm, task := s.VMState(), s.TaskState()
	if a == Reset {
		if s.State != Active && s.State != Resized && s.State != RevertBlocked {
			return fmt.Sprintf("Cannot '%s' instance %s: it is in state %s and there is nothing on a host that it could be set to", a, s.ID, s.State)
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
		allowed = []string{"shelved"} // shelving offloads at once, so none is ever in it
	case Unshelve:
		allowed = []string{"shelved_offloaded"}
	}
	if vm == "error" && s.State != Active { // it holds nothing that the action could be about
		allowed = nil
	}
	if !slices.Contains(allowed, vm) {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", a, s.ID, vm)
	}
	again := a == Reboot && hard && (s.Task == Rebooting || s.Task == RebootStarted || s.Task == RebootingHard || s.Task == RebootStartedHard)
	if task != "" && !again && (a != Evacuate || s.State != Active) {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", a, s.ID, task)
	}
	return ""
}

// take takes a wish in, unless it is refused.
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
		s = rebuild(s, e)
	case Resize:
		return plan(s, Resizing, e, now)
	case Migrate:
		return plan(s, Migrating, e, now)
	case Live:
		return plan(s, LiveMigration, e, now)
	case Evacuate:
		return plan(s, Evacuating, e, now)
	case Confirm:
		return confirm(s, now)
	case Revert:
		return revert(s, now)
	case Shelve:
		s.State, s.Task, s.Shelved = Shelving, "", true
		return addHistory(s, now, "is to be shelved; what is on "+s.Host+" is to go")
	case Unshelve:
		s.State, s.Round, s.FailedHosts = Scheduling, 0, nil
		return addHistory(s, now, "is to be unshelved: "+describe(s.Ask, s.Requests))
	case Reset:
		return reset(s, e.Error, now)
	}
	return addHistory(s, now, fmt.Sprintf("%s was asked for: %s", e.Action, s.Task))
}

func rebuild(s Server, e ActionRequested) Server {
	if s.PreRebuild == nil {
		s.PreRebuild = &PreRebuild{Name: s.Name, Image: s.Image, ImageSnapshot: s.ImageSnapshot, Ask: s.Ask}
	}
	s.Builds++
	s.Task = Rebuilding
	if e.Image != "" {
		if e.ImageSnapshot != nil {
			s.Ask = flavor.Reask(s.Flavor, s.SourceImage(), *e.ImageSnapshot, s.Ask)
		}
		s.Image, s.ImageSnapshot = e.Image, e.ImageSnapshot
	}
	if e.Name != "" {
		s.Name = e.Name
	}
	return s
}

// reset is an operator's word against ours: what is on the host stays.
func reset(s Server, toError bool, now time.Time) Server {
	if s.State == RevertBlocked {
		if toError {
			return s // it is
		}
		return retry(s, now)
	}
	s.Task, s.Fault = "", nil
	if toError {
		s.Fault = &Fault{Code: 500, Message: "An operator has set the state to ERROR.", Created: now}
		return addHistory(s, now, "an operator has set the state to ERROR")
	}
	return addHistory(s, now, "an operator has taken the state ERROR away")
}
