package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
)

// deadline returns the time of the next attempt that waits; zero when none waits.
func (w *works) deadline() (at time.Time) {
	for _, j := range w.byID {
		if j.attempt == nil && !j.retryAt.IsZero() {
			at = earlier(at, j.retryAt)
		}
	}
	return at
}

// deadlinePassed reports whether an attempt that waited can begin.
func (w *works) deadlinePassed() bool {
	at := w.deadline()
	return !at.IsZero() && !w.now.Before(at)
}

// dispatch begins the attempts that can begin, removals first because they free devices.
func (w *works) dispatch() {
	if w.freed {
		w.retryWaiting()
	}
	w.wake, w.freed = false, false
	recordListed(w)
	for _, j := range w.byID {
		if !j.retryAt.After(w.now) {
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
		if was := w.assignments.servers[id].PreviousID; pending[was] == id && w.cancel(was) {
			continue
		}
		if worksUnderFormerID(w, id) {
			continue
		}
		want, wanted := w.assignments.servers[id]
		j := w.byID[id]
		if j == nil { // a guest that gets another id is stopped or started because its server moves
			j = &work{id: id, requested: want.PreviousID != "" && want.PreviousID != id}
			w.byID[id] = j
		}
		used, limit := slots(w, want)
		if j.attempt != nil || !j.retryAt.IsZero() || wanted && (*used >= limit || mustWait(w, id)) {
			continue
		}
		removal := w.assignments.remove[id]
		j.attempt = &attempt{want: want, removal: removal, version: w.assignments.version(removal),
			destroyed: map[string]bool{}, vfsReset: map[string]bool{}, unrequested: unrequested{late: isLate(w.core, id)}}
		if wanted {
			*used++
		}
		w.advance(j)
	}
}

// due lists the servers that are not reconciled, by id. It returns none before compute has sent assignments, while
// they are not followed, and while another agent serves the host.
func (w *works) due() (assigned, leaving []string) {
	if !w.assignments.received || w.fenced || w.notFollowed != "" {
		return nil, nil
	}
	for id, want := range w.assignments.servers {
		if !w.settled(want) {
			assigned = append(assigned, id)
		}
	}
	slices.Sort(assigned)
	takeTurns(w.assignments, assigned)
	return assigned, w.leavingIDs()
}

// takeTurns orders servers so that their projects take turns: the builds of one project do not delay those of another.
func takeTurns(a assignments, ids []string) {
	turns, counts := make(map[string]int, len(ids)), map[string]int{}
	for _, id := range ids {
		project := a.servers[id].Project
		turns[id] = counts[project]
		counts[project]++
	}
	if len(counts) > 1 {
		slices.SortStableFunc(ids, func(a, b string) int { return turns[a] - turns[b] })
	}
}

// settled reports whether compute has the final phase of an assignment and the guest still matches it.
func (w *works) settled(want host.Server) bool {
	f, known := w.acked[want.ID]
	if !known || !f.want.Equal(want) {
		return false
	}
	if f.phase != host.Running && f.phase != host.Stopped && f.phase != host.Refused {
		return true
	}
	g, there := w.guests[want.ID]
	return there && !g.Departed && matches(g, want)
}

// reconsider cancels the attempts whose assignment differs from an earlier one, and lets these servers try again at
// once.
func (w *works) reconsider(before assignments) {
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		was, wanted := before.servers[id]
		is, still := w.assignments.servers[id]
		if wanted == still && was.Equal(is) && before.remove[id] == w.assignments.remove[id] {
			continue
		}
		j := w.byID[id]
		j.failures, j.buildFailures, j.retryAt, j.requested = 0, 0, time.Time{}, true
		w.cancel(id)
	}
}

// cancelAll cancels all attempts.
func (w *works) cancelAll() {
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		w.cancel(id)
	}
}

// endHeld ends the attempts whose effect waits for the journal, with the fault of a write.
func (w *works) endHeld(err error) {
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		if w.dropHeld(id) {
			w.end(w.byID[id], err)
		}
	}
}

// retryWaiting lets the servers that wait for devices try again at once.
func (w *works) retryWaiting() {
	for _, j := range w.byID {
		if !j.waitingSince.IsZero() {
			j.retryAt = time.Time{}
		}
	}
}

// forget deletes the state of work on servers that are not due.
func (w *works) forget(due ...[]string) {
	all := slices.Concat(due...)
	for _, id := range slices.Sorted(maps.Keys(w.byID)) {
		if w.byID[id].attempt == nil && !slices.Contains(all, id) {
			delete(w.byID, id)
			w.condition("server " + id)
		}
	}
}
