package sim

import (
	"maps"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// openStream performs the request for a stream.
func (am *agentModel) openStream(m *simHost) {
	a := m.agent
	request := a.watch.Request
	a.watch = nil
	am.note("Watch", "", m.tag, "")
	err := am.request(m, &effect{compute: am.compute.process}, 60, func() error {
		return am.compute.admit(m,
			request.Sender)
	})
	if err != nil {
		am.event(m, state.StreamEnded{Err: err})
		return
	}
	a.stream = &stream{past: am.compute.past(m.host, request.Position), read: -1,
		closed: am.compute.conductor.Agents.Connected(m.name)}
	if now := am.compute.head(m.host, nil); request.Since > 0 && now.Position == request.Position {
		a.stream.read = request.Since
	}
	am.progress = true
	am.mark(m)
}

// readStream reads the next message of the stream, or its end.
func (am *agentModel) readStream(m *simHost) {
	a := m.agent
	am.note("Received", "", m.tag, "")
	switch {
	case a.inbox != nil:
		d := *a.inbox
		a.inbox = nil
		am.report.Happened["line of an ended compute"]++
		am.receive(m, d)
	case a.ended:
		a.ended = false
		am.event(m, state.StreamEnded{Err: errDown})
	case am.chance(Messages, 80):
		am.disconnect(m)
	default:
		am.progress = true
		d := am.compute.deliver(m.host, a.stream.past)
		a.stream.read = d.assignments.Revision
		am.receive(m, d)
	}
}

// heartbeat repeats the assignments that the agent has read last, before it needs to have received them lately.
func (am *agentModel) heartbeat(m *simHost) {
	if a := m.agent; a != nil && a.stream != nil && !m.cut && !a.hasNews(m) && a.inbox == nil {
		am.receive(m, am.compute.deliver(m.host, a.stream.past))
	}
}

// receive delivers assignments.
func (am *agentModel) receive(m *simHost, d delivery) {
	a, sent := m.agent, d.assignments
	before := maps.Clone(a.named)
	a.noteNamed(sent)
	if am.broken == Sweeping {
		sent.Remove = am.nameUnassigned(m, sent)
	}
	position := journalPosition(d.assignments.Position)
	if position != m.disk.found.Position() {
		a.followed[position] = d.changed
	}
	am.event(m, state.Received{Assignments: sent})
	if m.agent != a {
		return
	}
	if a.behind() != "" {
		am.report.Happened["line not followed"]++
		delete(a.followed, position)
		a.named = before
		return
	}
	a.received = true
	am.checkHistory(m, d)
}

// nameUnassigned names the guests for removal that assignments do not mention.
func (am *agentModel) nameUnassigned(m *simHost, l host.Assignments) []host.Removal {
	named := map[string]bool{}
	for _, s := range l.Servers {
		named[s.ID], named[s.PreviousID] = true, true
	}
	for _, r := range l.Remove {
		named[r.ID], named[r.PreviousID] = true, true
	}
	remove := l.Remove
	for _, g := range am.hypervisor.listGuests(m) {
		if !named[g.ID] {
			remove = append(remove[:len(remove):len(remove)], host.Removal{ID: g.ID})
		}
	}
	return remove
}

// disconnect ends the stream: compute counts the silence from here on.
func (am *agentModel) disconnect(m *simHost) {
	a := m.agent
	if a == nil || m.cut {
		return
	}
	am.compute.beat(m.host)
	if a.stream != nil {
		a.stream.closed()
		m.host.sign = am.clock
		a.stream, a.ended = nil, true
	}
}
