package lifecycle

import "time"

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

// finishDeletion ends the deletion of a server whose own consumer holds nothing. Leftovers delay it.
func finishDeletion(s Server, now time.Time) Server {
	if len(s.Leftovers) == 0 {
		return markDeleted(s, now)
	}
	s.State, s.Choices = DeletedAwaitingCleanup, nil
	return addHistory(s, now, "deleted; waiting for the leftover on "+s.Leftovers[0].Host)
}

// markDeleted sets the final state.
func markDeleted(s Server, now time.Time) Server {
	s.State, s.Choices = Deleted, nil
	for _, at := range []*time.Time{&s.Ended, &s.Requested} {
		if at.IsZero() {
			*at = now
		}
	}
	return addHistory(s, now, "deleted")
}
