package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// onPortsBound continues after all ports are bound to the host.
func onPortsBound(s Server, e PortsBound, now time.Time) Server {
	if e.Host != s.Host {
		return s // late
	}
	adds := s.AwaitsBindings() && !s.withdraws()
	for _, p := range s.Ports {
		bound := slices.ContainsFunc(e.Ports, func(b Port) bool { return b.ID == p.ID })
		switch reason, lost := e.Lost[p.ID]; {
		case bound || slices.Contains(s.DeletedPorts, p.ID):
		case lost:
			s = onPortLost(s, p.ID, reason, now)
		default: // its deletion was not reported
			s = recordDeletedPort(s, p.ID, "the network service has deleted port "+p.ID, now)
		}
	}
	s.Ports = slices.Clone(e.Ports)
	if s.State == Active {
		s.PortsRefused = ""
	}
	s = addHistory(s, now, fmt.Sprintf("%s bound to %s", count(len(s.Ports), "port"), s.Host))
	s = onPortsShort(s, e.Short, now)
	switch {
	case adds && s.AwaitsBindings():
		return s // the agent has picked other devices meanwhile
	case adds:
		return advance(s, destinationPrepared{s.Host}, now)
	case s.Move != nil:
		return advance(s, portsBound{s.Host}, now)
	case s.State == BindingPorts:
		s.State = Spawning
	}
	return s
}

// onPortsShort records the ports that have not got what their policy, which has changed, requests.
func onPortsShort(s Server, short map[string]string, now time.Time) Server {
	for _, port := range slices.Sorted(maps.Keys(short)) {
		text := fmt.Sprintf("Port %s keeps the guarantee that it had before its policy changed: %s. Choose a smaller "+
			"policy, or make room or migrate the server; `berth heal ports` then allocates what the policy requests.", port,
			trimStop(short[port]))
		s.Refusal = &Fault{Code: 409, Message: text, Created: now}
		s = addHistory(s, now, text)
	}
	return s
}

// onPortsNotBound tries another host, after the agent of this one has freed the devices of the guest. A guest that has
// returned to the source of a move is started there; the binding is retried.
func onPortsNotBound(s Server, e PortsNotBound, now time.Time) Server {
	switch {
	case e.Host != s.Host:
		return s // late
	case s.awaitsPorts(), s.AwaitsBindings() && !s.withdraws():
		return removeUnbound(s, e.Reason, now)
	case s.Move != nil:
		lastReason := unlessAgain(s, lastFailure(s, e.Reason))
		return advance(s, destinationFailed{host: s.Host, message: e.Reason, lastReason: lastReason}, now)
	case s.State == BindingPorts:
		return reschedule(s, e.Reason, now)
	case s.StartAwaitsPorts():
		s.PortsRefused = e.Reason
		return addHistory(s, now, "starting the guest on "+s.Host+" without its ports, which are tried again: "+e.Reason)
	}
	return s
}

// removeUnbound begins to remove what the host has of a guest whose ports cannot be bound there.
func removeUnbound(s Server, reason string, now time.Time) Server {
	s.PortsRefused = reason
	return addHistory(s, now, "removing the guest on "+s.Host+", which is not built: "+reason)
}

// onUnboundRemoved tries another host after the agent has removed what it had of the guest.
func onUnboundRemoved(s Server, now time.Time) Server {
	reason := s.PortsRefused
	s.PortsRefused = ""
	return onGuestFailed(s, reason, now)
}
