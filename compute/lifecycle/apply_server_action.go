package lifecycle

import (
	"fmt"
	"time"
)

// applyAction starts the action unless Refuse refuses it.
func applyAction(s Server, e ActionRequested, now time.Time) Server {
	if s.Refuse(e.Action, e.Hard) != "" {
		return s
	}
	if e.Migration != "" && e.Migration != s.Migration.ID {
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
		if s.Actual == Off {
			s.Task = RebootStartedHard
		}
		s.Power = On
	case Pause:
		s.Power, s.Task = Paused, Pausing
	case Unpause:
		s.Power, s.Task = On, Unpausing
	case Suspend:
		s.Power, s.Task = Suspended, Suspending
	case Resume:
		s.Power, s.Task = On, Resuming
	case Rescue:
		s.Power, s.Task, s.RescueImage, s.AdminPass = On, Rescuing, e.Image, e.AdminPass
	case Unrescue:
		s.Power, s.Task, s.RescueImage = On, Unrescuing, ""
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
	case AbortLive:
		return advance(s, moveAborted{prepared: s.Reported}, now)
	case ForceLive:
		return advance(s, moveForced{}, now)
	case Shelve:
		return beginShelving(s, e, now)
	case Snapshot, Backup:
		return beginCopy(s, e, now)
	case Restore:
		s = beginRestore(s)
	case Offload:
		return offload(s, "offloading; removing the guest on "+s.Host, now)
	case Unshelve:
		return beginUnshelving(s, e, now)
	case Reset:
		return resetState(s, e.ToError, now)
	}
	return addHistory(s, now, fmt.Sprintf("%s requested: %s", e.Action, s.Task))
}

// beginUnshelving starts the guest of a server that is shelved on its host, or searches a host for another one.
func beginUnshelving(s Server, e ActionRequested, now time.Time) Server {
	if !s.ShelvedAt.IsZero() {
		s.Power, s.Task = On, Unshelving
		return addHistory(s, now, "unshelving; starting the guest on "+s.Host)
	}
	s.State, s.Round, s.FailedHosts = Scheduling, 0, nil
	if s.Target = e.To; e.Zone != nil {
		s.Zone = *e.Zone
	}
	return addHistory(s, now, "unshelving: "+describe(s.Ask, s.Requests))
}

// resetState sets or clears the state ERROR for an operator. The guest on the host is unchanged.
func resetState(s Server, toError bool, now time.Time) Server {
	if s.Phase() == RevertBlocked {
		if toError {
			return s // RevertBlocked is shown as ERROR
		}
		return advance(s, restoreRetried{}, now)
	}
	s = dropShelvedImage(s)
	s.Task, s.Fault, s.SoftDeleted, s.ShelvedAt = "", nil, time.Time{}, time.Time{}
	if toError {
		s.Fault = &Fault{Code: 500, Message: "The state was set to ERROR by an operator.", Created: now}
		return addHistory(s, now, "state set to ERROR by an operator")
	}
	return addHistory(s, now, "state ERROR cleared by an operator")
}
