package reconcile

import (
	"slices"
	"time"

	"github.com/openberth/berth/agent/journal"
)

// journalQueue is the state of the journal with the entries that are not written yet. A decision changes state at once,
// and its entries are written later, in order. An effect that must follow a decision is held until the entries of all
// earlier decisions are durable, so that after a crash the journal has a record of everything that was done or
// reported.
type journalQueue struct {
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
func (q *journalQueue) record(entries ...journal.Entry) {
	q.state = q.state.With(entries...)
	q.unwritten = append(q.unwritten, entries...)
	q.recorded += len(entries)
}

// hold keeps an effect until all entries recorded so far are durable; false when they are.
func (q *journalQueue) hold(e Effect) bool {
	if q.written == q.recorded {
		return false
	}
	q.held = append(q.held, heldEffect{e, q.recorded})
	return true
}

// dropHeld removes the held effect of a work, and reports whether there was one.
func (q *journalQueue) dropHeld(work string) bool {
	return q.dropHeldIf(func(e Effect) bool { return WorkOf(e) == work })
}

// dropHeldIf removes the held effects for which drop returns true, and reports whether there were any.
func (q *journalQueue) dropHeldIf(drop func(Effect) bool) bool {
	before := len(q.held)
	q.held = slices.DeleteFunc(q.held, func(h heldEffect) bool { return drop(h.effect) })
	return len(q.held) < before
}

// nextWrite returns the next write; nil when there is nothing to write, a write is in progress, or the last one failed
// and must not be repeated yet.
func (q *journalQueue) nextWrite(now time.Time) Effect {
	if q.writing > 0 || len(q.unwritten) == 0 || now.Before(q.rewriteAt) {
		return nil
	}
	q.writing, q.rewriteAt = len(q.unwritten), time.Time{}
	return WriteJournal{Entries: slices.Clone(q.unwritten)}
}

// wrote records that the write in progress is durable, and returns the effects that need not wait any longer.
func (q *journalQueue) wrote() (released []Effect) {
	q.durable = q.durable.With(q.unwritten[:q.writing]...)
	q.unwritten, q.written = q.unwritten[q.writing:], q.written+q.writing
	q.writing, q.writeFailures = 0, 0
	q.held = slices.DeleteFunc(q.held, func(h heldEffect) bool {
		if h.after <= q.written {
			released = append(released, h.effect)
		}
		return h.after <= q.written
	})
	return released
}

// writeFailed records that the write in progress has failed and is repeated after wait.
func (q *journalQueue) writeFailed(now time.Time, wait func(failures int) time.Duration) {
	q.writeFailures++
	q.writing, q.rewriteAt = 0, now.Add(wait(q.writeFailures))
}
