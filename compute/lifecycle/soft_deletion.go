package lifecycle

import "time"

// softDeletable reports whether the server has a guest that can be kept while the server is deleted but not reclaimed.
// As in Nova, a server that has never run cannot. A server that moves is deleted at once.
func (s Server) softDeletable() bool {
	return !s.Launched.IsZero() && (s.State == Active || s.Phase() == Resized)
}

// beginSoftDeletion stops the guest and keeps all that the server has. A resize is confirmed first. A task in progress
// ends: the agent brings the guest into the state that is requested now.
func beginSoftDeletion(s Server, e DeleteRequested, now time.Time) Server {
	s = dropShelvedImage(s)
	if s.Phase() == Resized {
		s = advance(s, moveConfirmed{}, now)
	}
	s.SoftDeleted, s.ShelvedAt, s.Power, s.Task, s.Refusal = now, time.Time{}, Off, SoftDeleting, nil
	text := "deletion requested; it can be restored until it is reclaimed: stopping the guest on " + s.Host
	if s.Actual == Off || e.Silent { // as for a deletion, users do not wait for an agent that does not report
		s.Task, text = "", softDeleted
	}
	return addHistory(s, now, text)
}

// softDeleted is what history says of a server that is soft-deleted and waits for nothing.
const softDeleted = "deleted; it can be restored until it is reclaimed"

// endSoftDeleting ends the wait for the guest to stop, if there is one: its agent does not report.
func endSoftDeleting(s Server, now time.Time) Server {
	if s.State != Active || s.Task != SoftDeleting {
		return s
	}
	s.Task = ""
	return addHistory(s, now, softDeleted)
}

// beginRestore starts the guest of a server that is soft-deleted, from its own disk.
func beginRestore(s Server) Server {
	s.Power, s.Task, s.RescueImage = On, Restoring, ""
	return s
}

// reclaims reports whether the request ends the soft deletion that it has seen, and the server has not been restored
// since.
func (e DeleteRequested) reclaims(s Server) bool {
	return s.Task == "" && e.Reclaims.Equal(s.SoftDeleted)
}
