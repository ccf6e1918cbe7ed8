package lifecycle

import (
	"slices"
	"time"
)

// This file is about ports that the network service has deleted while they belong to a server, or that it has for
// another device. That is recorded in the server. The port is detached when the ports of the server can be changed: at
// once, or after the server has been built, moved or changed.

// MaxDeletedPorts is the number of deletions that a server keeps.
const MaxDeletedPorts = 100

// PortDeleted is the report of the network service that it has deleted a port.
type PortDeleted struct{ Port string }

func (PortDeleted) event() {}

// PortChange implements PortChangeRequest.
func (PortDeleted) PortChange() (name, id string) { return "", "" }

// MayHavePort reports whether a port belongs to the server, or may belong to it after the change that is in progress.
func (s Server) MayHavePort(id string) bool {
	return s.HasPort(id) || s.attachesPort(id) ||
		s.Move != nil && slices.ContainsFunc(s.Move.From.Ports, func(p Port) bool { return p.ID == id }) ||
		slices.ContainsFunc(s.Networks, func(r NetworkRequest) bool { return r.Port == id })
}

// onPortDeleted records that a port is deleted.
func onPortDeleted(s Server, port string, now time.Time) Server {
	ends := !s.Requested.IsZero() || s.PortChange != nil && s.PortChange.Detach == port
	if ends || !s.MayHavePort(port) || slices.Contains(s.DeletedPorts, port) || len(s.DeletedPorts) >= MaxDeletedPorts {
		return s
	}
	return recordDeletedPort(s, port, "the network service has deleted port "+port, now)
}

// onPortLost gives up a port of a guest that is not the server's any more in the network service, as after the restore
// of a backup: its owner has returned it or has given it to another server. It is detached like a deleted port, and the
// user sees the reason.
func onPortLost(s Server, port, reason string, now time.Time) Server {
	text := "The port is detached: " + trimStop(reason) + "."
	s.Refusal = &Fault{Code: 409, Message: text, Created: now}
	return recordDeletedPort(s, port, text, now)
}

// recordDeletedPort adds a port to DeletedPorts. Its entry of Networks gets the port's id, so that Schedule leaves it
// out and creates no other port for it. text is the entry of the history.
func recordDeletedPort(s Server, port, text string, now time.Time) Server {
	s.DeletedPorts = append(slices.Clone(s.DeletedPorts), port)
	known := slices.Clone(s.Ports)
	if s.Move != nil {
		known = append(known, s.Move.From.Ports...)
	}
	if at := slices.IndexFunc(known, func(p Port) bool { return p.ID == port }); at >= 0 {
		if entry := slices.Index(s.Networks, requestOf(s, known[at])); entry >= 0 {
			s.Networks = slices.Clone(s.Networks)
			s.Networks[entry].Port = port
		}
	}
	return addHistory(s, now, text)
}

// detachDeletedPorts begins to detach the first deleted port, if the ports of the server can be changed now. A server
// without a guest has nothing of the port but its entries.
func detachDeletedPorts(s Server, now time.Time) Server {
	for len(s.DeletedPorts) > 0 {
		port, rest := s.DeletedPorts[0], s.DeletedPorts[1:]
		switch {
		case s.State == Shelved || s.State == Error:
			s = withoutPort(s, port)
		case s.RefusePortChange("detach_interface") == "":
			s = detachPort(s, port, port, now)
		default:
			return s
		}
		s.DeletedPorts = slices.Clone(rest)
	}
	s.DeletedPorts = nil
	return s
}

// withoutPort removes a port that is bound to no host.
func withoutPort(s Server, port string) Server {
	s.Ports = slices.DeleteFunc(slices.Clone(s.Ports), func(p Port) bool { return p.ID == port })
	s.Networks = slices.DeleteFunc(slices.Clone(s.Networks), func(r NetworkRequest) bool { return r.Port == port })
	return s
}
