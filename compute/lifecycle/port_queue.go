package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// This file is the queue of a server's changes of ports: one is performed at a time, and others wait. Each has a result
// of its own, because the last refusal of the server may be that of another one.

// MaxQueuedPortChanges is how many changes of its ports a server keeps waiting.
const MaxQueuedPortChanges = 32

// maxPortOutcomes is how many results a server keeps: those of all changes that can have waited, twice.
const maxPortOutcomes = 2 * MaxQueuedPortChanges

// PortOutcome returns the result of a change of a port. ended is false while the change waits or is performed; known is
// false if it has ended without a result, because the server ended.
func (s Server) PortOutcome(id string) (o PortOutcome, known, ended bool) {
	waits := slices.ContainsFunc(s.PortQueue, func(q QueuedPortChange) bool { return q.ID == id })
	if waits || s.PortChange != nil && s.PortChange.ID == id {
		return o, false, false
	}
	at := slices.IndexFunc(s.PortOutcomes, func(o PortOutcome) bool { return o.ID == id })
	if at < 0 {
		return o, false, true
	}
	return s.PortOutcomes[at], true, true
}

// RefusePortRequest returns why the request of a change of a port is refused, as RefusePortChange does. A change that
// only has to wait for another one is accepted, unless too many wait.
func (s Server) RefusePortRequest(what string) string {
	refusal := s.RefusePortChange(what)
	if refusal == "" || !s.portsChange() {
		return refusal
	}
	if n := len(s.PortQueue); n >= MaxQueuedPortChanges {
		return fmt.Sprintf("Cannot '%s' instance %s: %d changes of its ports wait already; try again when some of them "+
			"have ended", what, s.ID, n)
	}
	return ""
}

// portsChange reports whether only another change of its ports, or their binding, prevents a change of a port.
func (s Server) portsChange() bool {
	return s.State == Active && slices.Contains([]string{"active", "stopped"}, s.VMState()) && s.TaskState() == "" &&
		(s.PortChange != nil || !s.BoundTo(s.Host))
}

// requestPortChange begins a change of a port, or adds it to the queue.
func requestPortChange(s Server, q QueuedPortChange, now time.Time) Server {
	if s.RefusePortRequest(q.what()) != "" || q.Detach != "" && !s.HasPort(q.Detach) {
		return s
	}
	s.LastAction = q.ID
	if s.RefusePortChange(q.what()) == "" {
		s.Refusal = nil
		return beginPortChange(s, q, now)
	}
	s.PortQueue = append(slices.Clone(s.PortQueue), q)
	return addHistory(s, now, q.words()+" after the other changes of its ports")
}

// startPortChanges begins the change that has waited longest, if the ports of the server can be changed now. If they
// cannot, for another reason than a change, all that wait are refused.
func startPortChanges(s Server, now time.Time) Server {
	for len(s.PortQueue) > 0 && !s.portsChange() {
		q := s.PortQueue[0]
		s.PortQueue = slices.Clone(s.PortQueue[1:])
		if refusal := s.RefusePortChange(q.what()); refusal != "" {
			s = addHistory(addOutcome(s, PortOutcome{ID: q.ID, Refused: refusal}), now, refusal)
			continue
		}
		s = beginPortChange(s, q, now)
	}
	if len(s.PortQueue) == 0 {
		s.PortQueue = nil
	}
	return s
}

// beginPortChange begins a change of a port. A port may have been attached or detached by the changes before it.
func beginPortChange(s Server, q QueuedPortChange, now time.Time) Server {
	refusal := ""
	switch {
	case q.Detach != "" && !s.HasPort(q.Detach):
		refusal = fmt.Sprintf("Port %s is not attached to instance %s", q.Detach, s.ID)
	case q.Detach == "" && q.Request.Port != "" && s.HasPort(q.Request.Port):
		refusal = fmt.Sprintf("Port %s is attached to instance %s already", q.Request.Port, s.ID)
	case q.Detach != "":
		return detachPort(s, q.ID, q.Detach, now)
	default:
		s.PortChange = &PortChange{ID: q.ID, Request: q.Request}
		s.Networks = append(slices.Clone(s.Networks), q.Request) // so Release finds a port that is created
		return addHistory(s, now, "attaching a port")
	}
	return addHistory(addOutcome(s, PortOutcome{ID: q.ID, Refused: refusal}), now, refusal)
}

// endPortChange records the result of a change that an event has ended.
func endPortChange(before, s Server) Server {
	change := before.PortChange
	if change == nil || s.PortChange != nil && s.PortChange.ID == change.ID {
		return s
	}
	o := PortOutcome{ID: change.ID}
	switch {
	case change.Detach == "":
		o.Port = attachedPort(before, s)
	case s.HasPort(change.Detach):
		o.Refused = "the port is attached as before"
	default:
		return addOutcome(s, o)
	}
	if o.Port == "" {
		o.Refused = fmt.Sprintf("instance %s is in vm_state %s", s.ID, s.VMState())
		if s.Refusal != nil && s.Refusal != before.Refusal {
			o.Refused = s.Refusal.Message
		}
	}
	return addOutcome(s, o)
}

// attachedPort returns the port that the server has got by its change; empty if it has none.
func attachedPort(before, s Server) string {
	for _, p := range s.Ports {
		added := !slices.ContainsFunc(before.Ports, func(o Port) bool { return o.ID == p.ID })
		if s.State == Active && (added || before.PortChange.Port != nil && before.PortChange.Port.ID == p.ID) {
			return p.ID
		}
	}
	return ""
}

// addOutcome adds a result, and removes the oldest ones.
func addOutcome(s Server, o PortOutcome) Server {
	s.PortOutcomes = append(slices.Clone(s.PortOutcomes), o)
	s.PortOutcomes = s.PortOutcomes[max(0, len(s.PortOutcomes)-maxPortOutcomes):]
	return s
}

// what returns the Compute API's name of the request.
func (q QueuedPortChange) what() string {
	if q.Detach != "" {
		return "detach_interface"
	}
	return "attach_interface"
}

// words returns the change as words of the history.
func (q QueuedPortChange) words() string {
	if q.Detach != "" {
		return "detaching port " + q.Detach
	}
	return "attaching a port"
}
