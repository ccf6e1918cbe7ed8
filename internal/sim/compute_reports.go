package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// reportGuest passes the report of a guest to the conductor. It returns what the agent gets as the answer.
func (cm *computeModel) reportGuest(id, start string, e lifecycle.Report) error {
	cm.watchGate()
	h := cm.states[e.Host]
	if h.row.dead {
		cm.reason(cm.owners[id], "dead")
	}
	if h.admitted != start {
		cm.report.Happened["guest report of another start"]++
	}
	sent := start
	switch cm.broken {
	case Anyone:
		sent, e.Instance = h.row.report.Start, h.row.report.Instance
	case Uncounted:
		e.Number = cm.servers[cm.owners[id]].Latest(e.Host, e.Instance) + 1
	}
	cm.event, cm.guest = e, &guestReport{id, start, h}
	err := cm.conductor.Guest(background, id, sent, e)
	cm.event, cm.guest = nil, nil
	if late, is := errors.AsType[*presence.Late](err); is {
		return fault.Wrap(fault.Conflict, &host.Late{Number: late.Number})
	}
	if err != nil {
		cm.retryLater(cm.owners[id], err)
	}
	return err
}

// admit asks the conductor whether a start of an agent may serve its host. It returns what the agent gets as the
// answer.
func (cm *computeModel) admit(m *simHost, from host.Sender) error {
	m.agent.sender = schedule.Sender(from)
	if cm.reconnects(m) {
		return cm.occupied(15*time.Second, errDown)
	}
	return cm.admitted(m, cm.conductor.Agents.Admit(background, m.name, cm.senderOf(m)))
}

// admitted converts the answer of the conductor to a start of an agent.
func (cm *computeModel) admitted(m *simHost, err error) error {
	occupied, refused := errors.AsType[*presence.Occupied](err)
	if !refused {
		return err
	}
	m.host.refused = true
	cm.report.Happened["displaced"]++
	return cm.occupied(occupied.Wait, err)
}

// senderOf is how the agent of a machine identifies itself.
func (cm *computeModel) senderOf(m *simHost) schedule.Sender {
	from := m.agent.sender
	if known := m.host.row.report; cm.broken == Doubles && known.Start != from.Start {
		from.Instance, from.LockID = known.Instance, known.LockID
		from.Previous = append(slices.Clone(from.Previous), known.Start)
	}
	return from
}

// takeReport passes the report of a host to the conductor. It returns what the agent gets as the answer.
func (cm *computeModel) takeReport(m *simHost, report host.Report) error {
	cm.watchGate()
	h := m.host
	m.agent.sender = schedule.Sender(report.Sender())
	if cm.reconnects(m) {
		return errDown
	}
	r, err := record.FromReport(report)
	if err != nil {
		cm.violation(m, "report: %v", err)
		return err
	}
	if p := report.Position; r.NotFollowed == "" && p.Epoch != 0 {
		r.NotFollowed = p.Accept(cm.head(h, cm.past(h, p)))
	}
	if r.NotFollowed != "" && h.row.report.NotFollowed == "" {
		h.behindSince = cm.clock
	}
	if cm.broken == Careless {
		r.NotFollowed, r.Present = "", nil
	}
	r.Seen = cm.now
	cm.sender = m
	err = cm.conductor.Agents.Report(background, r, cm.senderOf(m))
	cm.sender = nil
	if err != nil {
		return cm.admitted(m, err)
	}
	h.reported, h.sign = true, cm.clock
	m.fresh, m.refused = false, 0
	cm.conductor.Agents.Followed(h.name, report.Position.EpochID, report.Position.Revision)
	cm.conductor.Audits.HostReported(h.row.report)
	h.row.resolveCleans(report.Cleaned)
	resolveDevices(cm, m, report)
	return nil
}

// takeAlive passes a sign of life of an agent to the conductor.
func (cm *computeModel) takeAlive(m *simHost, alive host.Alive) error {
	cm.watchGate()
	if alive.Failed != "" {
		return cm.conductor.Agents.StartFailed(background, m.name, cm.senderOf(m), alive.Failed)
	}
	if err := cm.conductor.Agents.Alive(background, m.name, cm.senderOf(m)); err != nil {
		return err
	}
	m.host.sign = cm.clock
	cm.conductor.Agents.Followed(m.name, alive.Position.EpochID, alive.Position.Revision)
	return nil
}

// reconnects reports whether the admitted agent of a host is another one, which has yet to report to this process. In a
// cloud it has done so before another agent is admitted; the simulation's operations take longer.
func (cm *computeModel) reconnects(m *simHost) bool {
	other := cm.servedBy(m.host)
	return other != nil && other != m && !m.host.reported
}

// beat stores the heartbeat that the agent of a host has sent within the last minute. Heartbeats are no operations of
// the simulation; they are stored when compute is about to judge the silence of the host.
func (cm *computeModel) beat(h *hostState) {
	m := cm.servedBy(h)
	if cm.beats || m == nil || !h.reported || cm.ended || h.sign == cm.clock {
		return
	}
	cm.beats = true
	cm.late = min(time.Duration(cm.rng.IntN(60))*time.Second, cm.clock-h.sign)
	safe, sender := cm.safe, cm.sender
	cm.safe, cm.sender = true, m
	r := h.row.report
	r.Seen = cm.now.Add(-cm.late)
	_ = cm.conductor.Agents.Report(background, r, m.agent.sender)
	h.sign = cm.clock - cm.late
	cm.safe, cm.sender, cm.late, cm.beats = safe, sender, 0, false
}

// checkAdmission checks the admission of a machine's agent: the agent that was admitted before must not be alive. If
// that one ran on another machine, its guests stay there and compute does not know them any more.
func (cm *computeModel) checkAdmission(m *simHost) {
	h := m.host
	if old := cm.servedBy(h); old != nil && old.agent.start != m.agent.start {
		cm.violation(m, "admitted: compute admits the start %s, and the start %s of %s is alive",
			m.agent.start, old.agent.start, old.tag)
	}
	if last := cm.served[h.name]; last != nil && last != m {
		cm.report.Happened["host taken over"]++
		m.orphaned, last.orphaned = true, true
		last.zombie = true
	}
	cm.served[h.name], h.admitted = m, m.agent.start
}

// checkReported checks a guest report that compute records: it must be from the start that was admitted last.
func (cm *computeModel) checkReported(h *hostState, id, start string) {
	if h.admitted != start {
		cm.violation(cm.byName[h.name], "reported: compute takes in what the start %s says of %s, and has admitted the "+
			"start %s",
			start, id, h.admitted)
	}
}

// watchGate lets the time for first reports end, and notes when the conductor goes on with what an earlier process was
// doing. The time ends when all hosts have reported whose agents can: the simulation's operations take longer than
// those of a cloud.
func (cm *computeModel) watchGate() {
	const firstReports, mostReports = schedule.Reconnect, time.Hour
	if cm.opened || cm.reported == nil {
		return
	}
	since := cm.clock - cm.began
	waits := slices.ContainsFunc(cm.awaited, func(name string) bool {
		h := cm.states[name]
		return !h.reported && (since < firstReports || cm.willReport(h) || h.refused && since < mostReports)
	})
	if !waits {
		cm.conductor.Agents.StopAwaiting()
	}
	select {
	case <-cm.process.reported:
	default:
		return
	}
	cm.opened = true
	for _, m := range slices.Concat(cm.hosts, cm.copies) {
		if m.host.unheard && len(m.guests) > 0 { // its guests are unknown to compute
			cm.report.Happened["restored without a host"]++
			m.zombie = true
		}
	}
}

// resolveDevices applies the report of the agent of a machine. From now on nothing may be placed on the devices that it
// reports as disabled, unless an operator has ended that.
func resolveDevices(cm *computeModel, m *simHost, report host.Report) {
	r := m.host.row.devices.made()
	for _, id := range report.EnabledDevices {
		delete(r.enable, id)
	}
	for at, d := range r.disabled {
		if d.Expired(cm.now) {
			delete(r.disabled, at)
		}
	}
	for _, wire := range report.DisabledDevices {
		d, err := wire.Read()
		if err != nil {
			cm.violation(m, "report: %v", err)
		}
		if r.reported[d.ID] = true; r.disabled[d.Address].ID == d.ID && !m.service.enabled[d.ID] {
			if m.service.out == nil {
				m.service.out = map[pci.Address]pci.Disablement{}
			}
			m.service.out[d.Address] = d
			cm.report.Happened["device disabled"]++
		}
	}
}
