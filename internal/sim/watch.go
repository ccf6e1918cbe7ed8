package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
)

// delivery is a line of assignments on its way to an agent.
type delivery struct {
	head  host.Assignments // without servers
	line  *line
	state stamp // oracle: of compute's database then
}

// connect opens the stream of assignments. False: compute does not admit the agent.
func (w *World) connect(m *simHost) bool {
	a := m.agent
	if refused, _ := w.compute.admit(m); refused {
		w.report.Happened["displaced"]++
		a.displaced = true
		return false
	}
	a.connected, a.past, a.read = true, w.compute.past(m.host, m.book.position), -1
	a.closed = w.compute.conductor.Connected(m.name, m.sender())
	m.behind = true // compute may have begun anew, and then knows nothing of the guests here
	return true
}

// disconnect ends the stream: compute counts the silence from here on.
func (w *World) disconnect(m *simHost) {
	a := m.agent
	if a == nil || m.cut {
		return
	}
	w.compute.beat(m.host)
	if a.connected {
		a.closed()
		m.host.sign = w.clock
	}
	a.connected, a.closed = false, nil
}

// hear reads the next line of assignments.
func (w *World) hear(m *simHost) {
	a := m.agent
	if m.inbox != nil {
		d := *m.inbox
		m.inbox = nil
		w.report.Happened["line of an ended compute"]++
		for _, r := range d.line.remove { // a restored compute may want these guests again, and sends that later
			m.host.named[r.ID], m.host.named[r.PreviousID] = true, true
		}
		w.follow(m, d)
		return
	}
	if w.chance(Messages, 80) {
		w.disconnect(m)
	}
	if !a.connected && !w.connect(m) {
		return
	}
	d := w.compute.deliver(m.host, a.past)
	if a.read = d.line.revision; a.heard && a.position == d.head.Position && a.behind == "" {
		a.beats++
		return
	}
	w.follow(m, d)
}

// follow takes in a line: from now on it is the truth, unless it is of another cloud or precedes what the agent has
// followed.
func (w *World) follow(m *simHost, d delivery) {
	a := m.agent
	m.stir()
	why := ""
	switch known := m.book.identity.cloud; {
	case w.broken == Backward:
	case known != "" && known != d.head.Cloud:
		why = "the assignments are those of another cloud"
	default:
		why = m.book.position.Accept(d.head)
	}
	if a.behind != why {
		a.behind, m.behind = why, true
		if why != "" {
			w.report.Happened["line not followed"]++
			m.host.behindSince = w.clock
		}
	}
	if why != "" {
		return
	}
	w.followed(m, d)
	m.book.identity.cloud, m.book.position, m.book.followed = d.head.Cloud, d.head.Position, d.line.changed
	if w.crashes(m) != nil {
		return
	}
	wants, remove := make(map[string]want, len(d.line.wants)), map[string]host.Removal{}
	for _, want := range d.line.wants {
		wants[want.id] = want
	}
	for _, r := range d.line.remove {
		if _, wanted := wants[r.ID]; !wanted {
			remove[r.ID] = r
		}
	}
	for id := range a.tries {
		if a.wants[id].key != wants[id].key || a.remove[id] != remove[id] {
			delete(a.tries, id)
			delete(a.retry, id)
		}
	}
	if before := a.position; before.Epoch != d.head.Epoch || before.EpochID != d.head.EpochID {
		clear(a.acked)
		clear(a.confirmed) // a database that was restored may lack what it was told
	}
	a.look = a.look || !a.heard
	a.heard, a.beats, a.position, a.wants, a.remove = true, a.beats+1, d.head.Position, wants, remove
	m.forgetOthers()
}

// forgetOthers drops what is remembered of servers and removals that the line does not have.
func (m *simHost) forgetOthers() {
	a := m.agent
	for _, fates := range []map[string]fate{a.acked, a.doomed} {
		maps.DeleteFunc(fates, func(id string, _ fate) bool { _, still := a.wants[id]; return !still })
	}
	maps.DeleteFunc(a.confirmed, func(id, key string) bool { return a.wants[id].key != key })
	maps.DeleteFunc(a.fresh, func(id string, _ bool) bool { _, still := a.confirmed[id]; return !still })
	maps.DeleteFunc(a.removed, func(id string, _ removalAt) bool { _, still := a.remove[id]; return !still })
	for id, r := range m.book.renames {
		if want, wanted := a.wants[id]; r.done && (!wanted || want.was != r.was) {
			delete(m.book.renames, id)
		}
	}
}

// owing are the entries that have yet to take over from others, by the ids that they take over from.
func (m *simHost) owing() map[string]string {
	a, out := m.agent, map[string]string{}
	for id, r := range m.book.renames {
		back := a.wants[r.was]
		goesBack := back.was == id && m.book.owed(back)
		if goes := a.remove[r.was].PreviousID == id; !r.done && !goesBack && !goes {
			out[r.was] = id
		}
	}
	for id, want := range a.wants {
		if m.book.owed(want) {
			out[want.was] = id
		}
	}
	return out
}

// due lists what is to be done, those first that free something. Before compute has sent assignments, and while they
// are not followed, there is nothing.
func (w *World) due(m *simHost) (list []string) {
	a := m.agent
	if !a.heard || a.displaced || a.behind != "" {
		return nil
	}
	owing := m.owing()
	free := func(id string) bool { by := owing[id]; return (by == "" || by == id) && a.retry[id] <= w.clock }
	for _, id := range w.leavingIDs(m) {
		if free(id) {
			list = append(list, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.wants)) {
		if free(id) && !m.settled(a.wants[id]) {
			list = append(list, id)
		}
	}
	return list
}

// leavingIDs lists what must go, in order: what the line names for removal, and what the line does not mention and has
// no guest.
func (w *World) leavingIDs(m *simHost) []string {
	a, out := m.agent, map[string]bool{}
	for id, r := range a.remove {
		if at, told := a.removed[id]; !told || at != (removalAt{a.position, r}) {
			out[id] = true
		}
	}
	for _, id := range m.standing() {
		_, wanted := a.wants[id]
		_, named := a.remove[id]
		_, exists := m.guests[id]
		if !wanted && !named && (!exists || w.broken == Sweeping) && !m.formerName(id) {
			out[id] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// formerName reports whether a removal deals with what is known under this id.
func (m *simHost) formerName(id string) bool {
	for _, r := range m.agent.remove {
		if r.PreviousID == id {
			return true
		}
	}
	return false
}

// unassigned lists the guests that exist and that the line does not mention.
func (m *simHost) unassigned() (list []string) {
	a := m.agent
	if !a.heard || a.behind != "" {
		return nil
	}
	owing := m.owing()
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		_, wanted := a.wants[id]
		_, named := a.remove[id]
		if _, renamed := owing[id]; !renamed && !wanted && !named && !m.formerName(id) {
			list = append(list, id)
		}
	}
	return list
}

// present lists the guests of the host for the report.
func (m *simHost) present(unassigned []string) (list []schedule.Present) {
	for _, id := range slices.Sorted(maps.Keys(m.guests)) {
		list = append(list, schedule.Present{ID: id, Server: cmp.Or(m.guests[id].server, id),
			Assigned: m.agent.heard && !slices.Contains(unassigned, id)})
	}
	return list
}

// settled says whether compute knows the end of what it wants.
func (m *simHost) settled(want want) bool {
	f, known := m.agent.acked[want.id]
	if !known || f.key != want.key {
		return false
	}
	if f.phase != "running" && f.phase != "stopped" && f.phase != "refused" {
		return true
	}
	g := m.guests[want.id]
	return g != nil && !g.departed && g.asWanted(want)
}

// work does what is due for one id. What fails is tried again, after growing waits.
func (w *World) work(m *simHost, id string) error {
	a := m.agent
	want, wanted := a.wants[id]
	r, named := a.remove[id]
	m.stir()
	var err error
	switch {
	case wanted:
		err = w.raise(m, want)
	case named:
		err = w.removeGuest(m, r)
	default:
		err = w.discard(m, id)
	}
	if m.agent != a {
		return err
	}
	if err == nil {
		delete(a.tries, id)
		delete(a.retry, id)
		return nil
	}
	a.tries[id]++
	if wait := backoff(err, a.tries[id]); wait > 0 {
		a.retry[id] = w.clock + wait
		w.wakeAfter(m, wait)
	}
	return err
}

// backoff is how long to wait after so many failures in a row. What the hypervisor has refused is tried less often.
func backoff(err error, times int) time.Duration {
	switch {
	case err == errRefused:
		return min(5*time.Minute, 5*time.Second<<min(times-1, 10))
	case times <= 3:
		return 0
	}
	return min(15*time.Second, time.Second<<min(times-4, 4))
}

// waitFor reports whether a claim has to wait for others that are about to leave.
func (w *World) waitFor(m *simHost, id string) bool {
	const patience = 2 * time.Minute
	a := m.agent
	since, waits := a.waiting[id]
	if !waits {
		since = w.clock
		a.waiting[id] = since
	}
	leaving := w.leavingIDs(m)
	for _, h := range a.set.Holders() {
		_, doomed := a.doomed[string(h)]
		if (doomed || slices.Contains(leaving, string(h)) || m.formerName(string(h))) && w.clock-since < patience {
			w.report.Happened["waited"]++
			return true
		}
	}
	delete(a.waiting, id)
	return false
}
