package sim

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
)

// silence is how long compute waits for a sign of life of an agent. The simulation's heartbeats come within a minute.
const silence = 3 * time.Minute

// The context of all calls: nothing in the simulation waits.
var background = context.Background()

// startProcess starts a process of compute on its database.
func (cm *computeModel) startProcess() {
	var last int64
	for _, e := range cm.epochs {
		last = max(last, e.number)
	}
	for _, h := range cm.states {
		h.row.endEpoch(last)
		h.reported, h.refused, h.sign, h.line = false, false, cm.clock, nil
	}
	p := &process{kernel: cm.kernel, epoch: epoch{last + 1, cm.name("e")}, began: cm.clock, safe: true}
	cm.epochs = append(slices.Clone(cm.epochs), p.epoch)
	cm.process = p
	client := cm.placement.Client(p.placementFault)
	c := conductor.New(&store{cm, p}, cm.placement.brokenPlacement(client), conductor.Config{
		Options: conductor.Options{Log: slog.New(slog.DiscardHandler), Aliases: cm.aliases, PCIInPlacement: true,
			Silence: silence, FollowWithin: slowness * time.Minute},
		Clock: conductor.Clock{Now: func() time.Time { return cm.now }, Since: p.since,
			Pause: func(context.Context, int) {}, Wait: cm.wait, NewID: func() string { return cm.name("r") }},
		Providers: client, Network: networkClient{cm.network, p}, Images: imageClient{cm.images, p}})
	p.conductor = c
	for _, m := range cm.hosts {
		if row := m.host.row; row.known && !row.dead {
			p.awaited = append(p.awaited, m.name)
		}
	}
	err := c.Resume(background)
	if err == nil {
		p.reported, err = c.AwaitReports(background)
	}
	if err != nil {
		cm.violation(nil, "start: compute cannot start: %v", err)
	}
	if p.safe = false; cm.broken == Ungated {
		c.StopAwaiting()
		p.opened = true // so that no host is exempt from the checks
	}
}

// since is the time since a process started, by a clock that is never set.
func (p *process) since() time.Duration {
	at := p.clock - p.late
	if p.broken == WallClock {
		return at - p.began + p.skewAt(at) - p.skewAt(p.began)
	}
	return at - p.began
}

// wait is how the conductor waits for a channel: it does not, and its step is repeated later.
func (k *kernel) wait(_ context.Context, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	default:
		k.report.Happened["held back by the gate"]++
		return errDown
	}
}

// fault is the fault that is injected into a call of a process of compute: its end before or after the effect of the
// call, or a lost answer.
func (p *process) fault() (before, after error) {
	switch {
	case p.ended:
		return errDown, nil
	case p.safe:
		return nil, nil
	case p.chance(Ends, 20000):
		p.report.Happened["compute ended in a call"]++
		p.ended = true
	case !p.chance(Answers, 300):
		return nil, nil
	}
	if p.halfTheTime() {
		return errDown, nil
	}
	return nil, errDown
}

// placementFault is fault for a call of Placement.
func (p *process) placementFault(call placementtest.Call) (before, after error) {
	if before, after = p.fault(); before == nil && call.Op == "Reshape" {
		p.report.Happened["room made"]++
	}
	return before, after
}

// restartEnded starts compute again after its process has ended in a call.
func (cm *computeModel) restartEnded() {
	if cm.ended {
		cm.stopProcess()
		cm.startProcess()
	}
}

// stopProcess ends the process of compute: all streams end. Some agents have yet to read what was sent to them.
func (cm *computeModel) stopProcess() {
	cm.touchReports()
	cm.ended = true
	for _, m := range slices.Concat(cm.hosts, cm.copies) {
		a := m.agent
		if a == nil || a.stream == nil {
			continue
		}
		if a.hasNews(m) && cm.halfTheTime() && a.inbox == nil {
			d := cm.deliver(m.host, a.stream.past)
			a.inbox = &d
		}
		a.stream, a.ended = nil, true
		cm.mark(m)
	}
}

// perform performs the step that is due for a server.
func (cm *computeModel) perform(id string) {
	cm.watchGate()
	before := cm.servers[id]
	err := cm.conductor.Perform(background, id)
	if fault.KindOf(err) == fault.Unavailable && cm.contradicted(before) {
		cm.report.Happened["held back by a guest"]++
	}
	if now, exists := cm.servers[id]; !exists || len(now.Steps()) == 0 {
		cm.due.drop(id)
	} else if before.State == lifecycle.Claiming && now.Try > before.Try {
		cm.report.Happened["claim lost"]++
	}
}

// contradicted reports whether the last reports of hosts contradict the record of a server.
func (db *database) contradicted(s lifecycle.Server) bool {
	for name, row := range db.rows {
		if row.known && !row.dead && s.Contradicts(name, row.report.NotFollowed != "", row.report.Present) {
			return true
		}
	}
	return false
}

// retryLater notes that a change of a server has returned an error, so that the conductor may have woken it.
func (cm *computeModel) retryLater(id string, err error) {
	if _, exists := cm.servers[id]; err != nil && exists {
		cm.due.add(id)
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
		cm.conductor.StopAwaiting()
	}
	select {
	case <-cm.process.reported:
	default:
		return
	}
	cm.opened = true
	for _, m := range slices.Concat(cm.hosts, cm.copies) {
		if m.host.unheard && len(m.guests) > 0 { // its guests are unknown to compute, see event_checks.go
			cm.report.Happened["restored without a host"]++
			m.zombie = true
		}
	}
}

// willReport reports whether an agent of a host is about to report.
func (hm *hostModel) willReport(h *hostState) bool {
	return slices.ContainsFunc(hm.machines(h.name), func(m *simHost) bool { return m.agent != nil && !m.cut })
}

// servedBy returns the machine whose admitted agent runs and is connected; nil if there is none.
func (hm *hostModel) servedBy(h *hostState) *simHost {
	serving := func(m *simHost) bool {
		a := m.agent
		return a != nil && !m.cut && !m.frozen && h.row.known && a.start == h.row.report.Start
	}
	if m := hm.byName[h.name]; serving(m) {
		return m
	}
	for _, c := range hm.copies {
		if c.name == h.name && serving(c) {
			return c
		}
	}
	return nil
}

// touchReports stores when the reports of the last minute came, before the process ends or the database is copied.
func (cm *computeModel) touchReports() {
	for _, m := range cm.hosts {
		if cm.servedBy(m.host) == nil {
			continue
		}
		age := time.Duration(cm.rng.IntN(60)) * time.Second
		m.host.row.report.Seen = beginning().Add(cm.clock - age + cm.skewAt(cm.clock-age))
	}
}
