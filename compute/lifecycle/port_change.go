package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/resource"
)

// This file attaches a port to a guest that exists, and detaches one. The change is one step, ChangePort, which is
// repeated until it is done or refused. If the port needs a device, the step is performed twice, and the change waits
// for the agent of the host in between. While it is in progress no other action starts, and other changes wait.

// PortAttachRequested is a request to attach a port. It has an effect if RefusePortRequest returns an empty string;
// Server.LastAction is its ID then, and Server.PortOutcome returns its result.
type PortAttachRequested struct {
	ID      string
	Request NetworkRequest
	Amounts resource.Amounts // what its port requests of each resource class
	By      Caller
}

// PortDetachRequested is a request to detach a port, as PortAttachRequested.
type PortDetachRequested struct {
	ID, Port string
	By       Caller
}

// PortAttached is the result of ChangePort: the port is bound to the host, and the server has its allocation. A port
// without a device is attached then.
type PortAttached struct {
	ID   string
	Port Port
}

// PortDetached is the result of ChangePort: the port and its allocation are released.
type PortDetached struct{ ID string }

// PortNotAttached is the result of ChangePort if the port cannot be attached. Nothing of it is left.
type PortNotAttached struct{ ID, Reason string }

func (PortAttachRequested) event() {}
func (PortDetachRequested) event() {}
func (PortAttached) event()        {}
func (PortDetached) event()        {}
func (PortNotAttached) event()     {}

// PortChangeRequest is one of the two requests of a change of ports, or PortDeleted.
type PortChangeRequest interface {
	Event
	// PortChange returns the Compute API's name of the request, and its id. PortDeleted has neither: it is not refused.
	PortChange() (name, id string)
}

// PortChange implements PortChangeRequest.
func (r PortAttachRequested) PortChange() (name, id string) { return "attach_interface", r.ID }

// PortChange implements PortChangeRequest.
func (r PortDetachRequested) PortChange() (name, id string) { return "detach_interface", r.ID }

// onPortChange applies the request or the result of a change of a port. A result of another change is late.
func onPortChange(s Server, e Event, now time.Time) Server {
	switch e := e.(type) {
	case PortAttachRequested:
		return requestPortChange(withPortAmounts(s, e), QueuedPortChange{ID: e.ID, Request: e.Request}, now)
	case PortDetachRequested:
		return requestPortChange(s, QueuedPortChange{ID: e.ID, Detach: e.Port}, now)
	case PortAttached:
		if !s.isDue(ChangePort) || s.PortChange.ID != e.ID || s.PortChange.ends() {
			return s // a refusal of the agent may have been faster
		}
		s.Ports = append(slices.Clone(s.Ports), e.Port)
		if s.PortChange.Device != nil {
			return addHistory(s, now, fmt.Sprintf("port %s is bound with %s; waiting for the agent of %s to attach it",
				e.Port.ID, e.Port.Device, s.Host))
		}
		s.PortChange = nil
		return addHistory(s, now, "attached port "+e.Port.ID)
	case PortClaimed, PortRefused:
		return onPortDeviceChange(s, e, now)
	case PortDetached:
		if s.isDue(ChangePort) && s.PortChange.ID == e.ID {
			s = withoutChange(s)
			return addHistory(s, now, "detached the port")
		}
	case PortNotAttached:
		if s.isDue(ChangePort) && s.PortChange.ID == e.ID && (s.PortChange.Device == nil || s.PortChange.ends()) {
			s = withoutChange(s)
			text := "The port cannot be attached: " + trimStop(e.Reason) + "."
			s.Refusal = &Fault{Code: 400, Message: text, Created: now}
			return addHistory(s, now, text)
		}
	}
	return s
}

// withoutChange ends the change of a port; the server has no port for its request any more.
func withoutChange(s Server) Server {
	if at := slices.Index(s.Networks, s.PortChange.Request); at >= 0 {
		s.Networks = slices.Delete(slices.Clone(s.Networks), at, at+1)
	}
	s.PortChange = nil
	return s
}

// withPortAmounts records what the port of a request needs, and forgets what ports need that are read or not requested.
// A request that is refused leaves the record as it is.
func withPortAmounts(s Server, e PortAttachRequested) Server {
	if s.RefusePortRequest("attach_interface") != "" {
		return s
	}
	kept := map[string]resource.Amounts{}
	for _, q := range s.PortQueue {
		kept[q.Request.Port] = s.PortAmounts[q.Request.Port]
	}
	if s.PortChange != nil {
		kept[s.PortChange.Request.Port] = s.PortAmounts[s.PortChange.Request.Port]
	}
	kept[e.Request.Port] = e.Amounts
	maps.DeleteFunc(kept, func(_ string, a resource.Amounts) bool { return len(a) == 0 })
	s.PortAmounts = nil
	if len(kept) > 0 {
		s.PortAmounts = kept
	}
	return s
}
