package lifecycle

import "time"

// onDelete starts the deletion, or keeps the guest of a server that can be restored. Nova records no action for the
// end of a soft deletion.
func onDelete(s Server, e DeleteRequested, now time.Time) Server {
	switch {
	case !e.Reclaims.IsZero():
		if !e.reclaims(s) {
			return s // late
		}
		return onDeleteRequested(s, e, now)
	case e.Soft && s.IsSoftDeleted() && s.Requested.IsZero() && s.Task != Restoring:
		if e.Silent {
			s = endSoftDeleting(s, now)
		}
		return s // requested before
	case e.Soft && s.softDeletable():
		return beginAction(s, beginSoftDeletion(s, e, now), deleteAction, "", e.By)
	}
	return beginAction(s, onDeleteRequested(s, e, now), deleteAction, "", e.By)
}

// onDeleteRequested starts the deletion. While allocations are being moved between consumers it waits for the result,
// because only then is it certain which consumer must release them.
func onDeleteRequested(s Server, e DeleteRequested, now time.Time) Server {
	if e.Silent && s.Ended.IsZero() {
		s.Ended = now
	}
	if !s.Requested.IsZero() {
		return s // requested before
	}
	s.Requested, s.AdminPass = now, ""
	s = dropShelvedImage(s)
	if s.Move != nil && s.Move.planned() {
		s = restoreSource(s)
	}
	has := s.presence()
	if s.Move != nil {
		if s = advance(s, moveCancelled{}, now); s.Move != nil {
			return addHistory(s, now, "deletion requested")
		}
	}
	switch has {
	case absent:
		if !e.MayHavePorts {
			return finishDeletion(s, now)
		}
		s.State = DeletingAllocation // Release returns the ports
	case existing, removing:
		s.State = DeletingGuest
	case incoming, building:
		s.State = DeletingAllocation // the agent has not reported the guest, so it might never report its end
		if s.Reported || e.Exists {
			s.State = DeletingGuest
		}
	default:
		// A claim may be in progress. The runner performs the steps of a server in sequence, so Release follows it.
		s.State = DeletingAllocation
	}
	return addHistory(s, now, "deletion requested")
}

// finishDeletion ends the deletion of a server whose own consumer holds nothing. Ports, leftovers and images
// delay it.
func finishDeletion(s Server, now time.Time) Server {
	if s.hasNetworks() { // Release removes the ports
		s.State = DeletingAllocation
		return s
	}
	s.State, s.Choices = DeletedAwaitingCleanup, nil
	switch {
	case len(s.Leftovers) > 0:
		return addHistory(s, now, "deleted; waiting for the leftover on "+s.Leftovers[0].Host)
	case len(s.UnusedImages) > 0 && s.Ended.IsZero(): // users see the server as deleted, as with Nova
		s.Ended = now
		return addHistory(s, now, "deleted; deleting the image "+s.UnusedImages[0])
	}
	return endCleanup(s, now)
}

// endCleanup ends the deletion of a server when nothing of it is left.
func endCleanup(s Server, now time.Time) Server {
	if s.State != DeletedAwaitingCleanup || len(s.Leftovers) > 0 || len(s.UnusedImages) > 0 {
		return s
	}
	return markDeleted(s, now)
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
