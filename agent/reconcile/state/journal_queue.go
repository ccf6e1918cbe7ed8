package state

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
	State   journal.State // with all decisions
	Durable journal.State // with the entries that are on the disk

	unwritten []journal.Entry
	Recorded  int // number of entries recorded since the start
	Written   int // number of those that are durable
	writing   int // number of entries of the write in progress; 0: none

	Held          []heldEffect
	writeFailures int       // consecutive failed writes
	RewriteAt     time.Time // of the next write after a failure
}

// heldEffect is an effect that waits until a number of entries are written.
type heldEffect struct {
	effect Effect
	after  int
}

// Record adds entries to the state.
func (q *journalQueue) Record(entries ...journal.Entry) {
	q.State = q.State.With(entries...)
	q.unwritten = append(q.unwritten, entries...)
	q.Recorded += len(entries)
}

// hold keeps an effect until all entries recorded so far are durable; false when they are.
func (q *journalQueue) hold(e Effect) bool {
	if q.Written == q.Recorded {
		return false
	}
	q.Held = append(q.Held, heldEffect{e, q.Recorded})
	return true
}

// DropHeld removes the held effect of a work, and reports whether there was one.
func (q *journalQueue) DropHeld(work string) bool {
	return q.DropHeldIf(func(e Effect) bool { return WorkOf(e) == work })
}

// IsHeld reports whether a work has a held effect.
func (q *journalQueue) IsHeld(work string) bool {
	return slices.ContainsFunc(q.Held, func(h heldEffect) bool { return WorkOf(h.effect) == work })
}

// DropHeldIf removes the held effects for which drop returns true, and reports whether there were any.
func (q *journalQueue) DropHeldIf(drop func(Effect) bool) bool {
	before := len(q.Held)
	q.Held = slices.DeleteFunc(q.Held, func(h heldEffect) bool { return drop(h.effect) })
	return len(q.Held) < before
}

// NextWrite returns the next write; nil when there is nothing to write, a write is in progress, or the last one failed
// and must not be repeated yet.
func (q *journalQueue) NextWrite(now time.Time) Effect {
	if q.writing > 0 || len(q.unwritten) == 0 || now.Before(q.RewriteAt) {
		return nil
	}
	q.writing, q.RewriteAt = len(q.unwritten), time.Time{}
	return WriteJournal{Entries: slices.Clone(q.unwritten)}
}

// Wrote records that the write in progress is durable, and returns the effects that need not wait any longer.
func (q *journalQueue) Wrote() (released []Effect) {
	q.Durable = q.Durable.With(q.unwritten[:q.writing]...)
	q.unwritten, q.Written = q.unwritten[q.writing:], q.Written+q.writing
	q.writing, q.writeFailures = 0, 0
	q.Held = slices.DeleteFunc(q.Held, func(h heldEffect) bool {
		if h.after <= q.Written {
			released = append(released, h.effect)
		}
		return h.after <= q.Written
	})
	return released
}

// WriteFailed records that the write in progress has failed and is repeated after wait.
func (q *journalQueue) WriteFailed(now time.Time, wait func(failures int) time.Duration) {
	q.writeFailures++
	q.writing, q.RewriteAt = 0, now.Add(wait(q.writeFailures))
}
