package sim

import (
	"maps"

	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/api/host"
)

// openStream performs the request for a stream.
func (w *World) openStream(m *simHost) {
	a := m.agent
	request := a.watch.Request
	a.watch = nil
	w.note("Watch", "", m.tag, "")
	err := w.request(m, &effect{compute: w.compute.process}, 60, func() error {
		return w.compute.admit(m,
			request.Sender)
	})
	if err != nil {
		w.event(m, reconcile.StreamEnded{Err: err})
		return
	}
	a.stream = &stream{past: w.compute.past(m.host, request.Position), read: -1,
		closed: w.compute.conductor.Connected(m.name)}
	if now := w.compute.head(m.host, nil); request.Since > 0 && now.Position == request.Position {
		a.stream.read = request.Since
	}
	w.progress = true
	w.mark(m)
}

// readStream reads the next message of the stream, or its end.
func (w *World) readStream(m *simHost) {
	a := m.agent
	w.note("Received", "", m.tag, "")
	switch {
	case a.inbox != nil:
		d := *a.inbox
		a.inbox = nil
		w.report.Happened["line of an ended compute"]++
		w.receive(m, d)
	case a.ended:
		a.ended = false
		w.event(m, reconcile.StreamEnded{Err: errDown})
	case w.chance(Messages, 80):
		w.disconnect(m)
	default:
		w.progress = true
		d := w.compute.deliver(m.host, a.stream.past)
		a.stream.read = d.assignments.Revision
		w.receive(m, d)
	}
}

// heartbeat repeats the assignments that the agent has read last, before it needs to have received them lately.
func (w *World) heartbeat(m *simHost) {
	if a := m.agent; a != nil && a.stream != nil && !m.cut && !a.hasNews(m) && a.inbox == nil {
		w.receive(m, w.compute.deliver(m.host, a.stream.past))
	}
}

// receive delivers assignments.
func (w *World) receive(m *simHost, d delivery) {
	a, sent := m.agent, d.assignments
	before := maps.Clone(a.named)
	a.noteNamed(sent)
	if w.broken == Sweeping {
		sent.Remove = w.nameUnassigned(m, sent)
	}
	position := journalPosition(d.assignments.Position)
	if position != m.disk.found.Position() {
		a.followed[position] = d.changed
	}
	w.event(m, reconcile.Received{Assignments: sent})
	if m.agent != a {
		return
	}
	if a.behind() != "" {
		w.report.Happened["line not followed"]++
		delete(a.followed, position)
		a.named = before
		return
	}
	a.received = true
	w.followed(m, d)
}

// behind returns why the agent does not follow the assignments; empty if it does.
func (a *agent) behind() string { return a.state.Report().NotFollowed }

// nameUnassigned names the guests for removal that assignments do not mention.
func (w *World) nameUnassigned(m *simHost, l host.Assignments) []host.Removal {
	named := map[string]bool{}
	for _, s := range l.Servers {
		named[s.ID], named[s.PreviousID] = true, true
	}
	for _, r := range l.Remove {
		named[r.ID], named[r.PreviousID] = true, true
	}
	remove := l.Remove
	for _, g := range w.listGuests(m) {
		if !named[g.ID] {
			remove = append(remove[:len(remove):len(remove)], host.Removal{ID: g.ID})
		}
	}
	return remove
}

// disconnect ends the stream: compute counts the silence from here on.
func (w *World) disconnect(m *simHost) {
	a := m.agent
	if a == nil || m.cut {
		return
	}
	w.compute.beat(m.host)
	if a.stream != nil {
		a.stream.closed()
		m.host.sign = w.clock
		a.stream, a.ended = nil, true
	}
}
