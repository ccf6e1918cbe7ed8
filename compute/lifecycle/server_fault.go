package lifecycle

import "time"

// Fault is the message shown to users on a server in ERROR.
type Fault struct {
	Code    int // as in the Compute API: 500 for all faults of this package
	Message string
	Details string // more text, for operators
	Created time.Time
}

// fail sets the state and the fault of a server that cannot be built or restored.
func fail(s Server, now time.Time, to State, text string) Server {
	s.State = to
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
