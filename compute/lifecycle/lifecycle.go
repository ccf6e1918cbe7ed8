// Package lifecycle is the state machine of a server: a state and an event yield the next state and the steps to
// perform.
//
// The package decides and performs nothing. Every pair of state and event is defined. Events may arrive late, twice, or
// from an agent that has not received the latest assignments; such events are ignored explicitly. The steps follow from
// the state alone, so a stored record determines what remains to be done after a restart.
//
// A new server: Preparing, Scheduling, Claiming, (AwaitingMinCount,) (BindingPorts,) Spawning, Active. A server
// that moves is in state Moving, and its Move, a state machine of its own, has a phase:
//
//	resize, cold migration (only a resize has PreparingMove):
//	    PreparingMove → Planning → MovingAllocations → AwaitingSourceAck → ClaimingDestination → StoppingSource →
//	    (BindingDestination →) SpawningDestination → Resized, until it is confirmed or reverted
//	evacuation:
//	    Planning → MovingAllocations → ClaimingDestination → (BindingDestination →) SpawningDestination
//	live migration:
//	    Planning → MovingAllocations → AwaitingSourceAck → ClaimingDestination → (BindingDestination →)
//	    PreLiveMigration → LiveMigrating
//
// A revert: Reverting → ReleasingDestination → RestoringAllocations. Then the server is Active again, on either host.
// From the end of MovingAllocations on, the migration is a consumer of its own. It holds the source's allocations; the
// server's own consumer holds the destination's. So every resource in use always has a consumer. What a move leaves
// behind on a host is listed in Leftovers until the agent of that host reports that the guest is gone, or an operator
// declares the host dead. Only then is it released.
//
// The files, from the bottom to the top: history_wording.go, move_kinds_and_phases.go, server_states_and_tasks.go,
// move_events_and_effects.go and residence_and_presence.go are data and texts; move_state_machine.go is the state
// machine of a move; server_record.go is the record; openstack_status.go, allowed_actions.go, server_residences.go,
// due_steps.go, expected_allocations.go, host_assignment.go, guests_to_remove.go, detect_outdated_record.go and
// actions_from_history.go derive what others see of it; server_details.go and lock.go have what users change without an
// action; server_events.go has the events; shelve.go has the image of a shelved server and soft_deletion.go the
// deletion that can be undone; server_ports.go, port_change.go, port_queue.go, port_guarantees.go and deleted_ports.go
// have the ports and their handlers; server_history.go, excluded_hosts_and_chosen_providers.go, server_fault.go and
// begin_rebuild_and_build_number.go change a part of the record; server_during_move.go connects a server with its move;
// host_search.go, server_deletion.go, after_allocation_release.go, guest_report.go, dead_host.go,
// apply_server_action.go and step_results.go are the handlers of events; lifecycle.go selects the handler.
package lifecycle

import (
	"slices"
	"time"
)

// Next returns the server after the event and the steps that are due then. now is the time of the event. The server
// passed in is not changed.
func Next(s Server, e Event, now time.Time) (Server, []Step) {
	next, _ := transition(s, e, now.UTC())
	next = endPortChange(s, next)
	next = withoutOldGuarantees(startPortChanges(detachDeletedPorts(next, now.UTC()), now.UTC()))
	return next, next.Steps()
}

// transition is the transition table: by event here, by state in each handler. known is false if the pair of state and
// event is not defined; a test covers all pairs.
func transition(s Server, e Event, now time.Time) (next Server, known bool) {
	if s.State == "" || s.State == Deleted { // not created yet, or final
		if _, created := e.(Created); created && s.State == "" {
			s.State, s.Created, s.Updated = Preparing, now, now
		}
		return s, isDefined(e)
	}
	if !slices.Contains(States(), s.State) {
		return s, false
	}
	switch e := e.(type) {
	case Created: // a server is created once
		return s, true
	case Report:
		return onReport(s, e, now)
	case GuestClaimed:
		return applyReport(s, guestReport{state: "claimed", host: e.Host, consumer: e.Consumer, devices: e.Devices,
			cells: e.Cells, build: e.Build}, now), true
	case GuestRunning:
		return applyReport(s, guestReport{state: "running", host: e.Host, consumer: e.Consumer, devices: e.Devices,
			cells: e.Cells, build: e.Build, ports: e.Ports, happened: e.Happened, upload: e.Upload,
			power: e.power(), rescue: e.Rescue}, now), true
	case GuestStopped:
		return applyReport(s, guestReport{state: "stopped", host: e.Host, consumer: e.Consumer, devices: e.Devices,
			cells: e.Cells, build: e.Build, ports: e.Ports, shutDown: e.ShutDown, upload: e.Upload,
			happened: e.Happened, power: e.power(), rescue: e.Rescue}, now), true
	case GuestRefused:
		return applyReport(s, guestReport{state: "refused", host: e.Host, consumer: e.Consumer, devices: e.Devices,
			cells: e.Cells, build: e.Build, message: e.Message, power: e.Power, rescue: e.Rescue, retryIn: e.RetryIn}, now), true
	case GuestMigrated:
		return applyReport(s, guestReport{state: "departed", host: e.Host, consumer: e.Consumer}, now), true
	case GuestFailed:
		return applyReport(s, guestReport{state: "failed", host: e.Host, consumer: e.Consumer, message: e.Message,
			removed: e.Removed}, now), true
	case GuestGone:
		return applyReport(s, guestReport{state: "gone", host: e.Host, consumer: e.Consumer, removed: e.Removed},
			now), true
	case HostDead:
		return onHostDead(s, e.Host, now), true
	case HostUnresponsive:
		return onHostUnresponsive(s, e, now), true
	case DeleteRequested:
		return onDelete(s, e, now), true
	case OffloadDue:
		return onOffloadDue(s, e, now), true
	case ActionRequested:
		return beginAction(s, applyAction(s, e, now), e.Action.PastName(), "", e.By), true
	case PortAttachRequested:
		name, id := e.PortChange()
		return beginAction(s, onPortChange(s, e, now), name, id, e.By), true
	case PortDetachRequested:
		name, id := e.PortChange()
		return beginAction(s, onPortChange(s, e, now), name, id, e.By), true
	case PortAttached, PortDetached, PortNotAttached, PortClaimed, PortRefused:
		return onPortChange(s, e, now), true
	case PortDeleted:
		return onPortDeleted(s, e.Port, now), true
	case StepFailed:
		return onStepFailed(s, e, now), true
	}
	return applyResult(s, e, now)
}

// maxReports is how many entries LastReports keeps. An agent's entry is removed after as many other agents have
// reported the server since.
const maxReports = 16

// onReport applies the event of a report unless it is older than the agent's last report about any guest of the server.
// All guests count because an older report may name the guest by an earlier id.
func onReport(s Server, e Report, now time.Time) (Server, bool) {
	if e.Number <= s.Latest(e.Host, e.Instance) {
		return s, isDefined(e.Event)
	}
	s, known := transition(s, e.Event, now)
	s.LastReports = slices.DeleteFunc(slices.Clone(s.LastReports), func(r LastReport) bool {
		return r.Host == e.Host && r.Instance == e.Instance
	})
	s.LastReports = append(s.LastReports, LastReport{Host: e.Host, Instance: e.Instance, Number: e.Number})
	s.LastReports = s.LastReports[max(0, len(s.LastReports)-maxReports):]
	return s, known
}

// isDefined reports whether the table defines the event.
func isDefined(e Event) bool {
	_, known := transition(Server{State: DeletedAwaitingCleanup}, e, time.Time{})
	return known
}
