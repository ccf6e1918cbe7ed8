package lifecycle

import "time"

// WaitsForAgent reports whether the server waits for the agent of a host to begin its guest there, and nothing of the
// guest exists there yet. An agent builds no guest before compute has accepted its claim, which sets Reported.
func (s Server) WaitsForAgent(host string) bool {
	if s.Reported || s.AllocatedHost() != host {
		return false
	}
	switch s.presence() {
	case claimed:
		return s.Phase() != StoppingSource // it waits for the agent of the source
	case incoming, building:
		return true
	}
	return false
}

// Concerns reports whether a server must leave the host: it waits for the agent, or it waits for a hypervisor that can
// build no guests. The destination of a move whose source is lost is kept: it may have copied the only disk.
func (e HostUnresponsive) Concerns(s Server) bool {
	if s.WaitsForAgent(e.Host) {
		return true
	}
	lost := s.Move != nil && s.Move.diskLost() != ""
	return e.Hypervisor && !lost && s.AllocatedHost() == e.Host && s.presence() == building
}

// onHostUnresponsive places a server on another host if the agent of its host has not begun its guest there.
func onHostUnresponsive(s Server, e HostUnresponsive, now time.Time) Server {
	switch {
	case !e.Concerns(s):
		return s // late
	case e.Stays != "":
		return addHistory(s, now, "waiting for host "+e.Host+": "+e.Reason+"; "+e.Stays)
	case s.State == Moving:
		return advance(s, destinationFailed{host: e.Host, message: e.Reason,
			lastReason: unlessAgain(s, lastFailure(s, e.Reason))}, now)
	}
	return reschedule(s, e.Reason, now)
}
