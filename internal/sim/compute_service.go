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
func (o *compute) startProcess() {
	w := o.w
	var last int64
	for _, e := range o.epochs {
		last = max(last, e.number)
	}
	for _, h := range o.hosts {
		h.row.endEpoch(last)
		h.reported, h.refused, h.sign, h.line = false, false, w.clock, nil
	}
	p := &process{w: w, epoch: epoch{last + 1, w.name("e")}, began: w.clock, safe: true}
	o.epochs = append(slices.Clone(o.epochs), p.epoch)
	o.process = p
	client := w.placement.Client(p.placementFault)
	c := conductor.New(&store{o, p}, w.brokenPlacement(client), conductor.Config{
		Options: conductor.Options{Log: slog.New(slog.DiscardHandler), Aliases: w.allAliases, PCIInPlacement: true,
			Silence: silence, FollowWithin: slowness * time.Minute},
		Clock: conductor.Clock{Now: func() time.Time { return w.now }, Since: p.since,
			Pause: func(context.Context, int) {}, Wait: w.wait, NewID: func() string { return w.name("r") }},
		Providers: client, Network: networkClient{w.network, p}, Images: imageClient{w, p}})
	p.conductor = c
	for _, m := range w.hosts {
		if row := m.host.row; row.known && !row.dead {
			p.awaited = append(p.awaited, m.name)
		}
	}
	err := c.Resume(background)
	if err == nil {
		p.reported, err = c.AwaitReports(background)
	}
	if err != nil {
		w.violation(nil, "start: compute cannot start: %v", err)
	}
	if p.safe = false; w.broken == Ungated {
		c.StopAwaiting()
		p.opened = true // so that no host is exempt from the checks
	}
}

// since is the time since a process started, by a clock that is never set.
func (p *process) since() time.Duration {
	at := p.w.clock - p.late
	if p.w.broken == WallClock {
		return at - p.began + p.w.skewAt(at) - p.w.skewAt(p.began)
	}
	return at - p.began
}

// wait is how the conductor waits for a channel: it does not, and its step is repeated later.
func (w *World) wait(_ context.Context, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	default:
		w.report.Happened["held back by the gate"]++
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
	case p.w.chance(Ends, 20000):
		p.w.report.Happened["compute ended in a call"]++
		p.ended = true
	case !p.w.chance(Answers, 300):
		return nil, nil
	}
	if p.w.halfTheTime() {
		return errDown, nil
	}
	return nil, errDown
}

// placementFault is fault for a call of Placement.
func (p *process) placementFault(call placementtest.Call) (before, after error) {
	if before, after = p.fault(); before == nil && call.Op == "Reshape" {
		p.w.report.Happened["room made"]++
	}
	return before, after
}

// restartEnded starts compute again after its process has ended in a call.
func (w *World) restartEnded() {
	if w.compute.ended {
		w.stopCompute()
		w.compute.startProcess()
	}
}

// stopCompute ends the process of compute: all streams end. Some agents have yet to read what was sent to them.
func (w *World) stopCompute() {
	w.compute.touchReports()
	w.compute.ended = true
	for _, m := range slices.Concat(w.hosts, w.copies) {
		a := m.agent
		if a == nil || a.stream == nil {
			continue
		}
		if a.hasNews(m) && w.halfTheTime() && a.inbox == nil {
			d := w.compute.deliver(m.host, a.stream.past)
			a.inbox = &d
		}
		a.stream, a.ended = nil, true
		w.mark(m)
	}
}

// perform performs the step that is due for a server.
func (o *compute) perform(id string) {
	o.watchGate()
	before := o.servers[id]
	err := o.conductor.Perform(background, id)
	if fault.KindOf(err) == fault.Unavailable && o.contradicted(before) {
		o.w.report.Happened["held back by a guest"]++
	}
	if now, exists := o.servers[id]; !exists || len(now.Steps()) == 0 {
		o.due.drop(id)
	} else if before.State == lifecycle.Claiming && now.Try > before.Try {
		o.w.report.Happened["claim lost"]++
	}
}

// contradicted reports whether the last reports of hosts contradict the record of a server.
func (o *compute) contradicted(s lifecycle.Server) bool {
	for name, row := range o.rows {
		if row.known && !row.dead && s.Contradicts(name, row.report.NotFollowed != "", row.report.Present) {
			return true
		}
	}
	return false
}

// retryLater notes that a change of a server has returned an error, so that the conductor may have woken it.
func (o *compute) retryLater(id string, err error) {
	if _, exists := o.servers[id]; err != nil && exists {
		o.due.add(id)
	}
}

// watchGate lets the time for first reports end, and notes when the conductor goes on with what an earlier process was
// doing. The time ends when all hosts have reported whose agents can: the simulation's operations take longer than
// those of a cloud.
func (o *compute) watchGate() {
	const firstReports, mostReports = schedule.Reconnect, time.Hour
	if o.opened || o.reported == nil {
		return
	}
	since := o.w.clock - o.began
	waits := slices.ContainsFunc(o.awaited, func(name string) bool {
		h := o.hosts[name]
		return !h.reported && (since < firstReports || o.willReport(h) || h.refused && since < mostReports)
	})
	if !waits {
		o.conductor.StopAwaiting()
	}
	select {
	case <-o.process.reported:
	default:
		return
	}
	o.opened = true
	for _, m := range slices.Concat(o.w.hosts, o.w.copies) {
		if m.host.unheard && len(m.guests) > 0 { // its guests are unknown to compute, see event_checks.go
			o.w.report.Happened["restored without a host"]++
			m.zombie = true
		}
	}
}

// willReport reports whether an agent of a host is about to report.
func (o *compute) willReport(h *hostState) bool {
	return slices.ContainsFunc(o.w.machines(h.name), func(m *simHost) bool { return m.agent != nil && !m.cut })
}

// servedBy returns the machine whose admitted agent runs and is connected; nil if there is none.
func (o *compute) servedBy(h *hostState) *simHost {
	serving := func(m *simHost) bool {
		a := m.agent
		return a != nil && !m.cut && !m.frozen && h.row.known && a.start == h.row.report.Start
	}
	if m := o.w.byName[h.name]; serving(m) {
		return m
	}
	for _, c := range o.w.copies {
		if c.name == h.name && serving(c) {
			return c
		}
	}
	return nil
}

// touchReports stores when the reports of the last minute came, before the process ends or the database is copied.
func (o *compute) touchReports() {
	w := o.w
	for _, m := range w.hosts {
		if o.servedBy(m.host) == nil {
			continue
		}
		age := time.Duration(w.rng.IntN(60)) * time.Second
		m.host.row.report.Seen = beginning().Add(w.clock - age + w.skewAt(w.clock-age))
	}
}
