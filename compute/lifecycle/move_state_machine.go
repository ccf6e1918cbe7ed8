package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
)

// AllocationsMoved reports whether Consumer holds the allocations of the source.
func (m Move) AllocationsMoved() bool { return !m.planned() && m.Phase != MovingAllocations }

// planned reports whether the move has not changed anything yet.
func (m Move) planned() bool { return m.Phase == PreparingMove || m.Phase == Planning }

// keepsDisk reports whether the server keeps its disk, which the destination copies from the source.
func (m Move) keepsDisk() bool { return m.Kind != Evacuating }

// CopiesDisk reports whether the disk is copied while the server is stopped. A live migration copies it otherwise.
func (m Move) CopiesDisk() bool { return m.Kind == Resizing || m.Kind == Migrating }

// diskLost returns why a move is given up that can no longer copy the disk; empty: it can, or needs no disk.
func (m Move) diskLost() string {
	if !m.From.Gone || !m.keepsDisk() {
		return ""
	}
	return fmt.Sprintf("The disk of the server is on host %s, from which it cannot be copied any more.", m.From.Host)
}

// MaxRefusals is how often Placement may refuse to restore a server's allocations before the move becomes
// RevertBlocked. With the runner's growing waits this takes about a minute.
const MaxRefusals = 10

// next returns the move after an event, and the effects on its server in the order in which they must be applied. An
// event that does not belong to the phase is late and changes nothing. The due steps follow from the phase.
func (m Move) next(e moveEvent) (Move, []moveEffect) {
	switch e := e.(type) {
	case askPrepared:
		m.Phase = Planning
		return m, []moveEffect{addEntry(e.text)}
	case choicesFound:
		return m.onChoicesFound()
	case choicesLost:
		if m.Aborted {
			return m.goBack(e.text)
		}
		if m.Phase != Planning {
			m.Phase = SchedulingDestination
		}
		return m, []moveEffect{addEntry(e.text)}
	case searchEnded:
		return m.goBack(e.text)
	case destinationClaimed:
		return m.onDestinationClaimed(e)
	case portsBound:
		return m.onPortsBound(e)
	case destinationReleased:
		switch m.Phase {
		case ReleasingDestination:
			m.Phase = RestoringAllocations
		case ReschedulingDestination:
			m.Phase = SchedulingDestination
		}
		return m, nil
	case destinationPrepared, destinationArrived, destinationFailed, destinationGone, destinationDead:
		return m.atDestination(e)
	case sourceReported, sourceMigrated, sourceFailed, sourceGone, sourceDead:
		return m.atSource(e)
	case allocationsMoved:
		return m.onMoved(e)
	case allocationsRestored:
		return m.onRestored(e)
	case restoreRefused:
		return m.onRestoreRefused(e)
	case moveConfirmed, moveReverted, restoreRetried, moveCancelled, moveAborted, moveForced:
		return m.onRequest(e)
	}
	return m, nil
}

// onChoicesFound starts the move, or the claim of the next choice.
func (m Move) onChoicesFound() (Move, []moveEffect) {
	if m.Aborted {
		return m.goBack(abortedByOperator)
	}
	if m.Phase == Planning {
		m.Phase = MovingAllocations
		return m, []moveEffect{entry("moving the allocations on %s to migration %s", m.From.Host, m.Consumer)}
	}
	m.Phase = ClaimingDestination
	return m, []moveEffect{claimChoice{}}
}

// onDestinationClaimed continues after the destination is claimed: build the guest, prepare the live migration, or
// stop the source.
func (m Move) onDestinationClaimed(e destinationClaimed) (Move, []moveEffect) {
	if lost := m.diskLost(); lost != "" {
		return m.goBack(lost)
	}
	next := "its agent to build the guest"
	stopped := m.SourceStopped && (m.StopSource || e.off)
	switch {
	case m.isLive() && len(m.From.Ports) > 0 && !needPortDevices(m.From.Requests):
		m.Phase, next = BindingDestination, "the bindings of its ports there"
	case m.isLive():
		m.Phase, next = PreLiveMigration, prepareLive
	case (m.Kind == Resizing || m.Kind == Migrating) && !stopped:
		m.Phase, m.StopSource, m.SourceStopped = StoppingSource, true, false
		next = fmt.Sprintf("the guest on %s to stop", m.From.Host)
	default:
		m.Phase = m.buildPhase()
	}
	status := "migrating"
	if m.isLive() { // it is prepared first
		status = "pre-migrating"
	}
	return m, []moveEffect{setStatus(status), entry("claimed on %s; waiting for %s", e.host, next)}
}

// prepareLive is what the agent of the destination of a live migration does first.
const prepareLive = "its agent to prepare the live migration"

// isLive reports whether the guest is migrated live: its host exists.
func (m Move) isLive() bool { return m.Kind == LiveMigration && !m.From.Gone }

// onPortsBound continues after the ports have a binding to the destination.
func (m Move) onPortsBound(e portsBound) (Move, []moveEffect) {
	switch {
	case m.Phase != BindingDestination:
		return m, nil
	case m.isLive():
		m.Phase = PreLiveMigration
		return m, []moveEffect{entry("waiting for %s", prepareLive)}
	}
	m.Phase = SpawningDestination
	return m, []moveEffect{entry("waiting for the agent of %s to build the guest", e.host)}
}

// onMoved continues after the migration has taken over the allocations of the source.
func (m Move) onMoved(e allocationsMoved) (Move, []moveEffect) {
	m.From.PreviousConsumer, m.From.Consumer = m.From.Consumer, m.Consumer
	m.StopSource = m.Kind == Evacuating // if the source host returns, the guest must not run on both hosts
	m.Phase = AwaitingSourceAck
	effects := []moveEffect{setStatus("pre-migrating")}
	var more []moveEffect
	switch {
	case e.deleted:
		more = []moveEffect{setStatus("cancelled"), leaveSource{}}
	case m.SourceLost != "":
		m, more = m.goBack(m.SourceLost)
	case m.diskLost() != "":
		m, more = m.goBack(m.diskLost())
	case m.Kind == Evacuating:
		m, more = m.onChoicesFound()
	default:
		more = []moveEffect{entry("waiting for the agent of %s to acknowledge migration %s", m.From.Host, m.Consumer)}
	}
	return m, append(effects, more...)
}

// buildPhase returns the phase in which the destination is built, or first the one in which the ports are bound to
// it. Ports that need devices are bound while the destination is being built.
func (m Move) buildPhase() MovePhase {
	if len(m.From.Ports) > 0 && !needPortDevices(m.From.Requests) {
		return BindingDestination
	}
	return SpawningDestination
}

// atDestination continues after the guest at the destination has changed.
func (m Move) atDestination(e moveEvent) (Move, []moveEffect) {
	switch e := e.(type) {
	case destinationPrepared:
		if m.Phase == PreLiveMigration {
			m.Phase = LiveMigrating
			return m, []moveEffect{setStatus("migrating"),
				entry("waiting for the agent of %s to migrate the guest to %s", m.From.Host, e.host)}
		}
	case destinationArrived:
		switch {
		case m.Kind == Evacuating, m.Kind == LiveMigration:
			return m, []moveEffect{setStatus("completed"), leaveSource{}}
		case m.From.Gone:
			return m.confirm()
		}
		m.Phase = Resized
		return m, []moveEffect{setStatus("finished")}
	case destinationFailed:
		failure := trimStop(fmt.Sprintf("%s: %s", e.host, e.message))
		switch m.Phase {
		case BindingDestination, SpawningDestination, PreLiveMigration:
			return m.tryNext(e.host, e.message, e.lastReason)
		case Resized:
			return m.goBack("The guest failed before its move was confirmed: " + failure + ".")
		case LiveMigrating:
			return m.goBack("The live migration failed on " + failure + ".")
		}
		return m.atDestination(destinationGone{host: e.host})
	case destinationGone:
		if m.Phase == Reverting {
			m.Phase = ReleasingDestination
			return m, []moveEffect{entry("the guest on %s is gone%s", e.host, prefixed(": ", e.why))}
		}
	case destinationDead:
		switch m.Phase {
		case StoppingSource, PreLiveMigration, BindingDestination, SpawningDestination:
			return m.tryNext(e.host, hostDead, e.lastReason)
		case LiveMigrating:
			return m.goBack(fmt.Sprintf("The live migration failed: host %s was %s.", e.host, hostDead))
		} // Resized: a user may revert the move
		return m.atDestination(destinationGone{e.host, hostDead})
	}
	return m, nil
}

// tryNext releases the claim at the destination, so that another host can be tried. If lastReason is not empty, or the
// source is lost, the move is given up for this reason.
func (m Move) tryNext(host, message, lastReason string) (Move, []moveEffect) {
	failed := entry("the guest failed on %s: %s", host, message)
	lastReason = cmp.Or(m.diskLost(), lastReason)
	if lastReason != "" {
		m, effects := m.goBack(lastReason)
		return m, append([]moveEffect{failed}, effects...)
	}
	m.Phase = ReschedulingDestination
	return m, []moveEffect{failed, hostFailed{host, message}}
}

// atSource continues after the guest at the source has changed.
func (m Move) atSource(e moveEvent) (Move, []moveEffect) {
	switch e := e.(type) {
	case sourceReported:
		return m.onSourceReported(e)
	case sourceMigrated:
		m.renamed()
		if m.Phase == LiveMigrating {
			return m, []moveEffect{setStatus("completed"), leaveSource{}, setTask(MigratingLive),
				entry("the guest has migrated from %s to %s", m.From.Host, e.to)}
		}
	case sourceFailed:
		return m.onSourceFailed(e)
	case sourceGone:
		m.From.Gone = true
	case sourceDead:
		if !m.From.Gone {
			return m.onSourceDead(e)
		}
	}
	return m, nil
}

// renamed records that the agent of the source knows the guest by the migration's id.
func (m *Move) renamed() {
	if m.AllocationsMoved() {
		m.From.PreviousConsumer = ""
	}
}

// onSourceReported applies a report about the existing guest at the source.
func (m Move) onSourceReported(e sourceReported) (Move, []moveEffect) {
	m.renamed()
	m.From.Devices, m.From.Cells, m.From.Reported = slices.Clone(e.devices), slices.Clone(e.cells), true
	m.From.Ports = portsWithPicked(m.From)
	if e.built { // an earlier action may have stopped the guest; it may run again later
		m.SourceStopped = e.stopped
	}
	switch {
	case m.Phase == AwaitingSourceAck:
		return m.onChoicesFound()
	case e.refused && m.StopSource && !m.SourceStopped: // the agent reports this once
		text := fmt.Sprintf("The guest cannot be stopped on %s: %s.", m.From.Host, trimStop(e.message))
		switch m.Phase {
		case StoppingSource, ReschedulingDestination, SchedulingDestination, ClaimingDestination:
			return m.goBack(text)
		}
		return m, []moveEffect{addEntry(text)}
	case m.Phase == StoppingSource && m.SourceStopped:
		m.Phase = m.buildPhase()
		return m, []moveEffect{setStatus("post-migrating"),
			entry("the guest on %s has stopped; waiting for the agent of %s to build it", m.From.Host, e.to)}
	}
	return m, nil
}

// onSourceFailed continues after the live migration failed at the source, or the guest at the source was lost.
func (m Move) onSourceFailed(e sourceFailed) (Move, []moveEffect) {
	failure := trimStop(fmt.Sprintf("%s: %s", m.From.Host, e.message))
	if m.Phase == LiveMigrating { // the guest runs at the source as before
		m, effects := m.goBack("The live migration failed on " + failure + ".")
		m.Phase = Reverting // the devices at the destination are claimed
		return m, effects
	}
	if m.Kind == LiveMigration && m.Failed != "" {
		return m, nil // a repeated report
	}
	m.From.Gone, m.SourceLost = true, "The server failed on "+failure+"."
	effects := []moveEffect{entry("the guest failed on %s: %s", m.From.Host, e.message)}
	var more []moveEffect
	switch m.Phase {
	case Resized:
		m, more = m.confirm()
	case PreparingMove, Planning, AwaitingSourceAck, SchedulingDestination, ClaimingDestination, StoppingSource,
		ReschedulingDestination:
		m, more = m.goBack(m.SourceLost)
	case PreLiveMigration:
		if m, more = m.goBack(m.SourceLost); e.prepared {
			m.Phase = Reverting
		}
	case BindingDestination:
		if m.Kind == LiveMigration {
			m, more = m.goBack(m.SourceLost)
		}
	}
	// SpawningDestination, and BindingDestination of other moves: the destination is being built. MovingAllocations,
	// Reverting, ReleasingDestination and RestoringAllocations: their end handles SourceLost.
	return m, append(effects, more...)
}

// onSourceDead continues without the source, whose agent will not report any more. The disk of the server is there, so
// a move whose destination is not being built is given up. If it is being built, its agent may have the disk already.
func (m Move) onSourceDead(e sourceDead) (Move, []moveEffect) {
	m.From.Gone = true
	effects := []moveEffect{entry("host %s, the source of the move, %s", m.From.Host, hostDead)}
	var more []moveEffect
	switch m.Phase {
	case PreparingMove, Planning, AwaitingSourceAck, SchedulingDestination, ClaimingDestination, StoppingSource,
		BindingDestination, ReschedulingDestination:
		if lost := m.diskLost(); lost != "" {
			m, more = m.goBack(lost)
		}
	case PreLiveMigration:
		if m, more = m.goBack(m.diskLost()); e.prepared {
			m.Phase = Reverting
		}
	case LiveMigrating:
		m.Phase, m.Aborted = SpawningDestination, false // the guest may have arrived; the ports are bound when it has
		more = []moveEffect{entry("waiting for the agent of %s to report the guest", e.to)}
	case Resized:
		m, more = m.confirm()
	}
	return m, append(effects, more...)
}

// goBack gives up the move: the server returns to its source. text is the reason.
func (m Move) goBack(text string) (Move, []moveEffect) {
	status := "error"
	if m.Aborted && m.SourceLost == "" && !m.From.Gone {
		status, text = "cancelled", abortedByOperator
	}
	m.Failed = text
	effects := []moveEffect{setStatus(status), entry("%s It goes back to %s.", text, m.From.Host)}
	if !m.AllocationsMoved() {
		return m, append(effects, returnToSource{})
	}
	m.Phase = ReleasingDestination
	return m, append(effects, dropChoices{})
}

// onRestored ends the move after the server has got the migration's allocations back.
func (m Move) onRestored(e allocationsRestored) (Move, []moveEffect) {
	m.From.PreviousConsumer = m.From.Consumer
	effects := []moveEffect{returnToSource{}}
	switch {
	case e.deleted:
	case m.SourceLost != "":
		return m, effects
	case m.RevertRequested:
		effects = append(effects, setTask(ResizeReverting), setStatus("reverted"))
	case m.StopSource && m.Kind != Evacuating && !e.off:
		effects = append(effects, setTask(PoweringOn))
	}
	return m, append(effects, entry("back on %s", m.From.Host))
}

// onRestoreRefused counts the refusals of RestoreAllocations. After MaxRefusals the move becomes RevertBlocked: the
// guest exists at the source and the migration holds its devices, so nothing is lost. No action on the server is
// possible until an operator has repaired the cause and reset its state.
func (m Move) onRestoreRefused(e restoreRefused) (Move, []moveEffect) {
	m.Refusals++
	effects := []moveEffect{addEntry(e.text)}
	switch {
	case e.deleted: // the migration's allocations are released with the guest
		return m, append(effects, setStatus("cancelled"), leaveSource{})
	case m.Refusals < MaxRefusals:
		return m, effects
	}
	m.Phase, m.Refusals = RevertBlocked, 0
	if m.Kind != Evacuating { // the guest may run meanwhile
		m.StopSource, m.SourceStopped = false, false
	}
	return m, append(effects, setFault(fmt.Sprintf("The move cannot be reverted: Placement refuses to move the "+
		"allocations of migration %s on %s back to the server: %s; an operator must repair the provider in Placement "+
		"and then reset the server's state (`openstack server set --state active`).",
		m.From.Consumer, m.From.Host, trimStop(e.reason))))
}

// onRequest applies a request of a user or an operator.
func (m Move) onRequest(e moveEvent) (Move, []moveEffect) {
	switch e := e.(type) {
	case moveConfirmed:
		return m.confirm()
	case moveReverted:
		m.Phase, m.RevertRequested = Reverting, true
		return m, []moveEffect{setStatus("reverting"), entry("reverting the move; removing the guest on %s", e.host)}
	case restoreRetried:
		m.Phase = RestoringAllocations
		return m, []moveEffect{setFault(""),
			addEntry("state reset by an operator: moving the migration's allocations back to the server")}
	case moveCancelled:
		if m.Phase != MovingAllocations && m.Phase != RestoringAllocations { // their result decides who holds what
			return m, []moveEffect{setStatus("cancelled"), leaveSource{}}
		}
	case moveAborted, moveForced:
		return m.onLiveRequest(e)
	}
	return m, nil
}

// abortedByOperator is the reason for which an aborted live migration goes back.
const abortedByOperator = "The live migration was aborted by an operator."

// onLiveRequest applies the request to abort a live migration or to force its completion. A request that is repeated
// changes nothing.
func (m Move) onLiveRequest(e moveEvent) (Move, []moveEffect) {
	abort, aborts := e.(moveAborted)
	switch {
	case !aborts && m.Forced, aborts && m.Aborted:
		return m, nil
	case !aborts:
		m.Forced = true
		return m, []moveEffect{entry("completion of the live migration requested: the guest on %s may be paused",
			m.From.Host)}
	}
	m.Aborted = true
	requested := entry("abort of the live migration requested")
	var more []moveEffect
	switch m.Phase {
	case SchedulingDestination, ClaimingDestination, ReschedulingDestination, BindingDestination:
		m, more = m.goBack(abortedByOperator)
	case PreLiveMigration:
		if m, more = m.goBack(abortedByOperator); abort.prepared {
			m.Phase = Reverting
		}
	}
	// Planning and MovingAllocations: their result ends the move. AwaitingSourceAck: the agent may be about to rename the
	// guest; its acknowledgement ends the move. LiveMigrating: the agent of the source reports how the copy has ended.
	return m, append([]moveEffect{requested}, more...)
}

// confirm ends the move; the source becomes a leftover.
func (m Move) confirm() (Move, []moveEffect) {
	return m, []moveEffect{setStatus("confirmed"), leaveSource{},
		entry("move confirmed; removing the guest on %s", m.From.Host)}
}
