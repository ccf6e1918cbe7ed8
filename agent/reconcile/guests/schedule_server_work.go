package guests

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
)

// Deadline returns the time of the next attempt that waits; zero when none waits.
func (w *Works) Deadline() (at time.Time) {
	for _, j := range w.byID {
		if j.attempt == nil && !j.retryAt.IsZero() {
			at = state.Earlier(at, j.retryAt)
		}
	}
	return at
}

// DeadlinePassed reports whether an attempt that waited can begin.
func (w *Works) DeadlinePassed() bool {
	at := w.Deadline()
	return !at.IsZero() && !w.Now.Before(at)
}

// Dispatch begins the attempts that can begin, removals first because they free devices.
func (w *Works) Dispatch() {
	if w.Freed {
		w.retryWaiting()
	}
	w.Wake, w.Freed = false, false
	recordListed(w)
	for _, j := range w.byID {
		if !j.retryAt.After(w.Now) {
			j.retryAt = time.Time{} // from here on, the end of an attempt or a change leads here again
		}
	}
	assigned, leaving := w.due()
	w.forget(assigned, leaving)
	w.setUnassignedCondition()
	setLostCondition(w)
	pending := w.pendingRenames()
	for _, id := range slices.Concat(leaving, assigned) {
		if by, waits := pending[id]; waits && by != id {
			continue // the entry that replaces this one must apply its rename first
		}
		if was := w.Assignments.Servers[id].PreviousID; pending[was] == id && w.cancel(was) {
			continue
		}
		if worksUnderFormerID(w, id) {
			continue
		}
		want, wanted := w.Assignments.Servers[id]
		j := w.byID[id]
		if j == nil { // a guest that gets another id is stopped or started because its server moves
			j = &work{id: id, requested: want.PreviousID != "" && want.PreviousID != id}
			w.byID[id] = j
		}
		used, limit := slots(w, want)
		if j.attempt != nil || !j.retryAt.IsZero() || wanted && (*used >= limit || mustWait(w, id)) {
			continue
		}
		removal := w.Assignments.Remove[id]
		j.attempt = &attempt{want: want, removal: removal, version: w.Assignments.Version(removal),
			destroyed: map[string]bool{}, vfsReset: map[string]bool{}, unrequested: unrequested{late: state.IsLate(w.Core, id)}}
		if wanted {
			*used++
		}
		w.advance(j)
	}
}

// due lists the servers that are not reconciled, by id. It returns none before compute has sent assignments, while
// they are not followed, and while another agent serves the host.
func (w *Works) due() (assigned, leaving []string) {
	if !w.Assignments.Received || w.Fenced || w.NotFollowed != "" {
		return nil, nil
	}
	for id, want := range w.Assignments.Servers {
		if !w.settled(want) {
			assigned = append(assigned, id)
		}
	}
	slices.Sort(assigned)
	takeTurns(w.Assignments, assigned)
	return assigned, w.LeavingIDs()
}

// takeTurns orders servers so that their projects take turns: the builds of one project do not delay those of another.
func takeTurns(a state.Assignments, ids []string) {
	turns, counts := make(map[string]int, len(ids)), map[string]int{}
	for _, id := range ids {
		project := a.Servers[id].Project
		turns[id] = counts[project]
		counts[project]++
	}
	if len(counts) > 1 {
		slices.SortStableFunc(ids, func(a, b string) int { return turns[a] - turns[b] })
	}
}

// settled reports whether compute has the final phase of an assignment and the guest still matches it.
func (w *Works) settled(want host.Server) bool {
	f, known := w.Acked[want.ID]
	if !known || !f.Want.Equal(want) {
		return false
	}
	if f.Phase != host.Running && f.Phase != host.Stopped && f.Phase != host.Refused {
		return true
	}
	g, there := w.Guests[want.ID]
	return there && !g.Departed && matches(g, want)
}

// Reconsider cancels the attempts whose assignment differs from an earlier one, and lets these servers try again at
// once.
func (w *Works) Reconsider(before state.Assignments) {
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		was, wanted := before.Servers[id]
		is, still := w.Assignments.Servers[id]
		if wanted == still && was.Equal(is) && before.Remove[id] == w.Assignments.Remove[id] {
			continue
		}
		j := w.byID[id]
		if forceMigration(w, j, was, is) {
			continue
		}
		j.failures, j.buildFailures, j.retryAt, j.requested = 0, 0, time.Time{}, true
		w.cancel(id)
	}
}

// CancelAll cancels all attempts.
func (w *Works) CancelAll() {
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		w.cancel(id)
	}
}

// EndHeld ends the attempts whose effect waits for the journal, with the fault of a write.
func (w *Works) EndHeld(err error) {
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		if w.DropHeld(id) {
			w.end(w.byID[id], err)
		}
	}
}

// retryWaiting lets the servers that wait for devices try again at once.
func (w *Works) retryWaiting() {
	for _, j := range w.byID {
		if !j.waitingSince.IsZero() {
			j.retryAt = time.Time{}
		}
	}
}

// forget deletes the state of work on servers that are not due.
func (w *Works) forget(due ...[]string) {
	all := slices.Concat(due...)
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		if w.byID[id].attempt == nil && !slices.Contains(all, id) {
			delete(w.byID, id)
			w.Condition(condition.ServerFailed, id)
		}
	}
}
