package reconcile

import (
	"slices"
	"time"

	"github.com/openberth/berth/agent/journal"
)

// ledger is the journal as the state machine has it. A decision changes state at once, and its entries are written
// later, in order. An effect that must follow a decision is held until the entries of all earlier decisions are
// durable, so that the agent never does or reports what it would not know after a crash.
type ledger struct {
	state   journal.State // with all decisions
	durable journal.State // with the entries that are on the disk

	unwritten []journal.Entry
	recorded  int // number of entries recorded since the start
	written   int // number of those that are durable
	writing   int // number of entries of the write in progress; 0: none

	held          []heldEffect
	writeFailures int       // consecutive failed writes
	rewriteAt     time.Time // of the next write after a failure
}

// heldEffect is an effect that waits until a number of entries are written.
type heldEffect struct {
	effect Effect
	after  int
}

// record adds entries to the state.
func (l *ledger) record(entries ...journal.Entry) {
	l.state = l.state.With(entries...)
	l.unwritten = append(l.unwritten, entries...)
	l.recorded += len(entries)
}

// hold keeps an effect until all entries recorded so far are durable; false when they are.
func (l *ledger) hold(e Effect) bool {
	if l.written == l.recorded {
		return false
	}
	l.held = append(l.held, heldEffect{e, l.recorded})
	return true
}

// dropHeld removes the held effect of a work, and reports whether there was one.
func (l *ledger) dropHeld(work string) bool {
	return l.dropHeldIf(func(e Effect) bool { return WorkOf(e) == work })
}

// dropHeldIf removes the held effects for which drop returns true, and reports whether there were any.
func (l *ledger) dropHeldIf(drop func(Effect) bool) bool {
	before := len(l.held)
	l.held = slices.DeleteFunc(l.held, func(h heldEffect) bool { return drop(h.effect) })
	return len(l.held) < before
}

// nextWrite returns the next write; nil when there is nothing to write, a write is in progress, or the last one failed
// and must not be repeated yet.
func (l *ledger) nextWrite(now time.Time) Effect {
	if l.writing > 0 || len(l.unwritten) == 0 || now.Before(l.rewriteAt) {
		return nil
	}
	l.writing, l.rewriteAt = len(l.unwritten), time.Time{}
	return WriteJournal{Entries: slices.Clone(l.unwritten)}
}

// wrote records that the write in progress is durable, and returns the effects that need not wait any longer.
func (l *ledger) wrote() (released []Effect) {
	l.durable = l.durable.With(l.unwritten[:l.writing]...)
	l.unwritten, l.written = l.unwritten[l.writing:], l.written+l.writing
	l.writing, l.writeFailures = 0, 0
	l.held = slices.DeleteFunc(l.held, func(h heldEffect) bool {
		if h.after <= l.written {
			released = append(released, h.effect)
		}
		return h.after <= l.written
	})
	return released
}

// writeFailed records that the write in progress has failed and is repeated after wait.
func (l *ledger) writeFailed(now time.Time, wait func(failures int) time.Duration) {
	l.writeFailures++
	l.writing, l.rewriteAt = 0, now.Add(wait(l.writeFailures))
}
