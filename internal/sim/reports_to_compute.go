package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// reportGuest passes the report of a guest to the conductor. It returns what the agent gets as the answer.
func (o *compute) reportGuest(id, start string, e lifecycle.Report) error {
	o.watchGate()
	h := o.hosts[e.Host]
	if h.row.dead {
		o.reason(o.owners[id], "dead")
	}
	if h.admitted != start {
		o.w.report.Happened["guest report of another start"]++
	}
	sent := start
	switch o.w.broken {
	case Anyone:
		sent, e.Instance = h.row.report.Start, h.row.report.Instance
	case Uncounted:
		e.Number = o.servers[o.owners[id]].Latest(e.Host, e.Instance) + 1
	}
	o.event, o.guest = e, &guestReport{id, start, h}
	err := o.conductor.Guest(background, id, sent, e)
	o.event, o.guest = nil, nil
	if late, is := errors.AsType[*conductor.Late](err); is {
		return fault.Wrap(fault.Conflict, &host.Late{Number: late.Number})
	}
	if err != nil {
		o.retryLater(o.owners[id], err)
	}
	return err
}

// admit asks the conductor whether a start of an agent may serve its host. It returns what the agent gets as the
// answer.
func (o *compute) admit(m *simHost, from host.Sender) error {
	m.agent.sender = schedule.Sender(from)
	if o.reconnects(m) {
		return o.w.occupied(15*time.Second, errDown)
	}
	return o.admitted(m, o.conductor.Admit(background, m.name, o.senderOf(m)))
}

// admitted converts the answer of the conductor to a start of an agent.
func (o *compute) admitted(m *simHost, err error) error {
	occupied, refused := errors.AsType[*conductor.Occupied](err)
	if !refused {
		return err
	}
	m.host.refused = true
	o.w.report.Happened["displaced"]++
	return o.w.occupied(occupied.Wait, err)
}

// senderOf is how the agent of a machine identifies itself.
func (o *compute) senderOf(m *simHost) schedule.Sender {
	from := m.agent.sender
	if known := m.host.row.report; o.w.broken == Doubles && known.Start != from.Start {
		from.Instance, from.LockID = known.Instance, known.LockID
		from.Previous = append(slices.Clone(from.Previous), known.Start)
	}
	return from
}

// takeReport passes the report of a host to the conductor. It returns what the agent gets as the answer.
func (o *compute) takeReport(m *simHost, report host.Report) error {
	o.watchGate()
	h := m.host
	m.agent.sender = schedule.Sender(report.Sender())
	if o.reconnects(m) {
		return errDown
	}
	r, err := record.FromReport(report)
	if err != nil {
		o.w.violation(m, "report: %v", err)
		return err
	}
	if p := report.Position; r.NotFollowed == "" && p.Epoch != 0 {
		r.NotFollowed = p.Accept(o.head(h, o.past(h, p)))
	}
	if r.NotFollowed != "" && h.row.report.NotFollowed == "" {
		h.behindSince = o.w.clock
	}
	if o.w.broken == Careless {
		r.NotFollowed, r.Present = "", nil
	}
	r.Seen = o.w.now
	o.sender = m
	err = o.conductor.Report(background, r, o.senderOf(m))
	o.sender = nil
	if err != nil {
		return o.admitted(m, err)
	}
	h.reported, h.sign = true, o.w.clock
	m.fresh, m.refused = false, 0
	o.conductor.Followed(h.name, report.Position.EpochID, report.Position.Revision)
	o.conductor.HostReported(h.row.report)
	h.row.resolveCleans(report.Cleaned)
	return nil
}

// takeAlive passes a sign of life of an agent to the conductor.
func (o *compute) takeAlive(m *simHost, alive host.Alive) error {
	o.watchGate()
	if alive.Failed != "" {
		return o.conductor.StartFailed(background, m.name, o.senderOf(m), alive.Failed)
	}
	if err := o.conductor.Alive(background, m.name, o.senderOf(m)); err != nil {
		return err
	}
	m.host.sign = o.w.clock
	o.conductor.Followed(m.name, alive.Position.EpochID, alive.Position.Revision)
	return nil
}

// reconnects reports whether the admitted agent of a host is another one, which has yet to report to this process. In a
// cloud it has done so before another agent is admitted; the simulation's operations take longer.
func (o *compute) reconnects(m *simHost) bool {
	other := o.servedBy(m.host)
	return other != nil && other != m && !m.host.reported
}

// beat stores the heartbeat that the agent of a host has sent within the last minute. Heartbeats are no operations of
// the simulation; they are stored when compute is about to judge the silence of the host.
func (o *compute) beat(h *hostState) {
	m := o.servedBy(h)
	if o.beats || m == nil || !h.reported || o.ended || h.sign == o.w.clock {
		return
	}
	o.beats = true
	o.late = min(time.Duration(o.w.rng.IntN(60))*time.Second, o.w.clock-h.sign)
	safe, sender := o.safe, o.sender
	o.safe, o.sender = true, m
	r := h.row.report
	r.Seen = o.w.now.Add(-o.late)
	_ = o.conductor.Report(background, r, m.agent.sender)
	h.sign = o.w.clock - o.late
	o.safe, o.sender, o.late, o.beats = safe, sender, 0, false
}
