package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// applyResult applies the result of a step. A result that belongs to a step of another state is late and is ignored.
func applyResult(s Server, e Event, now time.Time) (Server, bool) {
	switch e := e.(type) {
	case Prepared:
		if s.isDue(Prepare) {
			s = onPrepared(s, e, now)
		}
	case Chosen:
		if s.isDue(Schedule) {
			s = onChosen(s, e, now)
		}
	case NoValidHost:
		if s.isDue(Schedule) {
			s = onNoValidHost(s, e, now)
		}
	case Claimed:
		if s.isDue(Claim) && e.Try == s.Try {
			s = onClaimed(s, now)
		}
	case ClaimLost:
		if s.isDue(Claim) && e.Try == s.Try {
			s = onClaimLost(s, e, now)
		}
	case MinCountReached:
		if s.State == AwaitingMinCount {
			s.MinCountReached = true
			s = beginBuild(s, "min_count reached", "the agent of "+s.Host, now)
		}
	case MinCountFailed:
		if s.State == AwaitingMinCount {
			s = giveUp(s, now, e.Reason, true)
		}
	case PortsBound:
		if s.isDue(BindPorts) {
			s = onPortsBound(s, e, now)
		}
	case PortsNotBound:
		if s.isDue(BindPorts) {
			s = onPortsNotBound(s, e, now)
		}
	case AllocationsMoved:
		if s.isDue(MoveAllocations) {
			s = onAllocationsMoved(s, now)
		}
	case AllocationsRestored:
		if s.isDue(RestoreAllocations) {
			event := allocationsRestored{deleted: !s.Requested.IsZero(), off: s.Power == Off}
			s = advance(s, event, now)
		}
	case Released:
		if s.isDue(Release) {
			s = onReleased(s, now)
		}
	case ImageCreated, ImageChecked, ImageDeleted:
		s = onImageResult(s, e, now)
	case LeftoverReleased:
		s = onLeftoverReleased(s, e, now)
	case Refused:
		if s.isDue(e.Step) {
			s = onRefused(s, e, now)
		}
	default:
		return s, false
	}
	return s, true
}

// onAllocationsMoved continues after the server's allocations have been moved to its migration.
func onAllocationsMoved(s Server, now time.Time) Server {
	s = advance(s, allocationsMoved{deleted: !s.Requested.IsZero()}, now)
	if s.Move == nil { // the deletion waited for this
		return finishDeletion(s, now)
	}
	return s
}

// onRefused ends what the refused step belongs to.
func onRefused(s Server, e Refused, now time.Time) Server {
	switch e.Step {
	case Prepare:
		return onPrepareRefused(s, e.Reason, now)
	case Schedule:
		return giveUp(s, now, e.Reason, false)
	case Claim:
		return giveUp(s, now, e.Reason, true)
	case CreateImage, CheckImage:
		return giveUpImage(s, e.Reason, now)
	case MoveAllocations:
		return advance(s, searchEnded{"The move cannot start: " + trimStop(e.Reason) + "."}, now)
	}
	return s // the other steps are repeated until they succeed
}

// onStepFailed records the failure. The runner repeats the step.
func onStepFailed(s Server, e StepFailed, now time.Time) Server {
	if !slices.Contains(s.Steps(), e.Step) {
		return s // late
	}
	text := fmt.Sprintf("cannot %s now, will try again: %s", e.Step, e.Reason)
	if s.isAborted() && s.Move.Phase == Planning { // it need not be repeated
		return advance(s, searchEnded{text}, now)
	}
	if !e.Refused || e.Step != RestoreAllocations {
		return addHistory(s, now, text)
	}
	s = advance(s, restoreRefused{text: text, reason: e.Reason, deleted: !s.Requested.IsZero()}, now)
	if s.Move == nil { // the deletion does not wait any longer
		return finishDeletion(s, now)
	}
	return s
}
