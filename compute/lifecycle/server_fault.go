package lifecycle

import "time"

// fail sets the state and the fault of a server that cannot be built or restored.
func fail(s Server, now time.Time, to State, text string) Server {
	if to == Error && s.hasNetworks() {
		to = Failing // Release removes the ports
	}
	s.State, s.AdminPass = to, "" // only a rebuild, which has its own password, builds the guest again
	if to == Error {
		s.Host, s.Choices = "", nil
	}
	return recordFault(s, now, text)
}

// recordFault sets the fault and adds it to the history.
func recordFault(s Server, now time.Time, text string) Server {
	s.Fault = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}
