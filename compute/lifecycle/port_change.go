package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/pci"
)

// This file attaches a port to a guest that exists, and detaches one. The change is one step, ChangePort, which is
// repeated until it is done or refused. If the port needs a device, the step is performed twice, and the change waits
// for the agent of the host in between. While it is in progress no other action starts, and other changes wait.

// PortChange is a port that is being attached or detached.
type PortChange struct {
	ID      string         // of the request
	Request NetworkRequest // the port or the network to attach
	Detach  string         // the port to detach; empty: Request is attached

	Device  *pci.Request // of the port; nil: it needs none, or it is not claimed yet
	Port    *Port        // with Device: as it was claimed or detached
	Refused string       // why the claim of a port with a device is undone; empty: it is not
}

// PortAttachRequested is a request to attach a port. It has an effect if RefusePortRequest returns an empty string;
// Server.LastAction is its ID then, and Server.PortOutcome returns its result.
type PortAttachRequested struct {
	ID      string
	Request NetworkRequest
}

// PortDetachRequested is a request to detach a port, as PortAttachRequested.
type PortDetachRequested struct{ ID, Port string }

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

// RefusePortChange returns why no port can be attached or detached now, in the words of the Compute API; empty if one
// can. what is attach_interface or detach_interface.
func (s Server) RefusePortChange(what string) string {
	vm, task := s.VMState(), s.TaskState()
	switch {
	case s.State != Active || !slices.Contains([]string{"active", "stopped"}, vm):
		return fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", what, s.ID, vm)
	case task != "":
		return fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", what, s.ID, task)
	case s.PortChange != nil || !s.BoundTo(s.Host):
		return fmt.Sprintf("Cannot '%s' instance %s while its ports are being changed", what, s.ID)
	}
	return ""
}

// onPortChange applies the request or the result of a change of a port. A result of another change is late.
func onPortChange(s Server, e Event, now time.Time) Server {
	switch e := e.(type) {
	case PortAttachRequested:
		return requestPortChange(s, QueuedPortChange{ID: e.ID, Request: e.Request}, now)
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

// HasPort reports whether the server has a port, or the device of one.
func (s Server) HasPort(id string) bool {
	_, hasDevice := s.DeviceOf(id)
	return hasDevice || slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ID == id })
}

// attachesPort reports whether a port is being attached, or a port of a network whose id is not known yet.
func (s Server) attachesPort(id string) bool {
	c := s.PortChange
	switch {
	case c == nil || c.ends():
		return false
	case c.Port != nil:
		return c.Port.ID == id
	}
	return c.Request.Port == id || c.Request.Port == ""
}

// detachPort begins the change that detaches a port. BindPorts may have left out a port that was deleted; its device
// and its allocation are released then.
func detachPort(s Server, change, id string, now time.Time) Server {
	port := Port{ID: id}
	if at := slices.IndexFunc(s.Ports, func(p Port) bool { return p.ID == id }); at >= 0 {
		port = s.Ports[at]
		s.Ports = slices.Delete(slices.Clone(s.Ports), at, at+1) // its agent detaches it
	}
	s.PortChange = &PortChange{ID: change, Detach: id, Request: requestOf(s, port)}
	for _, r := range s.Requests {
		if r.Port != nil && r.Port.ID == id {
			return detachDevice(s, r, port, now)
		}
	}
	return addHistory(s, now, "detaching port "+id)
}

// requestOf returns the entry of Networks that a port belongs to.
func requestOf(s Server, p Port) NetworkRequest {
	for _, r := range s.Networks {
		if r.Port == p.ID || r.Port == "" && p.Created && r.Network == p.Network &&
			(r.FixedIP == "" || slices.ContainsFunc(p.FixedIPs, func(ip FixedIP) bool { return ip.Address == r.FixedIP })) {
			return r
		}
	}
	return NetworkRequest{Port: p.ID, Network: p.Network}
}

// withoutChange ends the change of a port; the server has no port for its request any more.
func withoutChange(s Server) Server {
	if at := slices.Index(s.Networks, s.PortChange.Request); at >= 0 {
		s.Networks = slices.Delete(slices.Clone(s.Networks), at, at+1)
	}
	s.PortChange = nil
	return s
}
