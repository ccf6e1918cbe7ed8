package sim

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server"
	"github.com/openberth/berth/fault"
)

// compute is the compute service: its database, and the process that runs on it.
type compute struct {
	w *World
	*database
	*process
	hosts map[string]*hostState

	ids randomSet // of servers that are not deleted
	due randomSet // of servers with steps, and of those whose last change has returned an error

	event  lifecycle.Event // that a server is being given, for the log; nil: of a step
	sender *simHost        // oracle: whose report is being stored
	guest  *guestReport    // oracle: that is being recorded
	beats  bool            // a heartbeat is being stored
}

// guestReport is a report of a guest.
type guestReport struct {
	id, start string
	host      *hostState
}

// process is one process of compute: the production conductor over the simulation's store and Placement. When it has
// ended, all its calls fail, so that nothing of its memory has an effect.
type process struct {
	conductor *conductor.Conductor
	epoch     epoch
	began     time.Duration
	ended     bool
	safe      bool            // no faults are injected
	late      time.Duration   // how old the heartbeat that is being stored is
	reported  <-chan struct{} // closed when the awaited hosts have reported
	awaited   []string        // hosts that may report soon after the start
	opened    bool            // the simulation has seen that reported is closed
}

// hostState is what the simulation has of one host on compute's side.
type hostState struct {
	name    string
	row     *hostRow        // in the database
	servers map[string]bool // with residences there
	line    *line           // as it was made last

	reported bool          // to the present process
	refused  bool          // the present process has refused a start of an agent
	sign     time.Duration // last report, end of a stream or start of the process

	behindSince time.Duration
	unheard     bool     // oracle: it has not reported to the database that was restored last
	served      *simHost // oracle: whose agent was admitted last
	admitted    string   // oracle: its start
}

// The context of all calls: nothing in the simulation waits.
var background = context.Background()

var errDown = fault.New(fault.Unavailable, "sim", "the service does not answer")

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
	p := &process{epoch: epoch{last + 1, w.name("e")}, began: w.clock, safe: true}
	o.epochs = append(slices.Clone(o.epochs), p.epoch)
	o.process = p
	client := w.placement.Client(func(call placementtest.Call) (before, after error) { return w.placementFault(p, call) })
	c := conductor.New(&store{o, p}, w.brokenPlacement(client))
	c.Log, c.Providers = slog.New(slog.DiscardHandler), client
	c.UseClock(conductor.Clock{Now: func() time.Time { return w.now }, Since: func() time.Duration { return w.since(p) },
		Pause: func(context.Context, int) {}, Wait: w.wait, NewID: func() string { return w.name("r") }})
	c.Aliases, c.PCIInPlacement = w.allAliases, true
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
func (w *World) since(p *process) time.Duration {
	at := w.clock - p.late
	if w.broken == WallClock {
		return at - p.began + w.skewAt(at) - w.skewAt(p.began)
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

// computeFault is the fault that is injected into a call of a process of compute: its end before or after the effect of
// the call, or a lost answer.
func (w *World) computeFault(p *process) (before, after error) {
	switch {
	case p.ended:
		return errDown, nil
	case p.safe:
		return nil, nil
	case w.chance(Ends, 20000):
		w.report.Happened["compute ended in a call"]++
		p.ended = true
	case !w.chance(Answers, 300):
		return nil, nil
	}
	if w.halfTheTime() {
		return errDown, nil
	}
	return nil, errDown
}

// placementFault is computeFault for a call of Placement.
func (w *World) placementFault(p *process, call placementtest.Call) (before, after error) {
	if before, after = w.computeFault(p); before == nil && call.Op == "Reshape" {
		w.report.Happened["room made"]++
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
		if row.known && !row.dead && s.Contradicts(name, row.report.Behind != "", row.report.Present) {
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
		if m.host.unheard && len(m.guests) > 0 { // its guests are unknown to compute, see oracle.go
			o.w.report.Happened["restored without a host"]++
			m.zombie = true
		}
	}
}

// willReport reports whether an agent of a host is about to report.
func (o *compute) willReport(h *hostState) bool {
	return slices.ContainsFunc(o.w.machines(h.name), func(m *simHost) bool { return m.agent != nil && !m.cut })
}

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
		return fault.Wrap(fault.Conflict, "sim", &host.Late{Number: late.Number})
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
		from.Instance, from.ProcessSpace = known.Instance, known.ProcessSpace
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
	r, err := server.ReadReport(report)
	if err != nil {
		o.w.violation(m, "report: %v", err)
		return err
	}
	if p := report.Position; r.Behind == "" && p.Epoch != 0 {
		r.Behind = p.Accept(o.head(h, o.past(h, p)))
	}
	if r.Behind != "" && h.row.report.Behind == "" {
		h.behindSince = o.w.clock
	}
	if o.w.broken == Careless {
		r.Behind, r.Present = "", nil
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
	o.conductor.HostReported(h.row.report)
	h.row.resolveCleans(report.Cleaned)
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

// servedBy returns the machine whose admitted agent runs and is connected; nil if there is none.
func (o *compute) servedBy(h *hostState) *simHost {
	serving := func(m *simHost) bool {
		a := m.agent
		return a != nil && !m.cut && h.row.known && a.start == h.row.report.Start
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

// hostDown is `berth host down`. It reports whether the host is dead then.
func (o *compute) hostDown(h *hostState) bool {
	o.reasonsOfDead(h)
	err := o.conductor.HostDown(background, h.name)
	if err != nil {
		o.retryAll(h)
	}
	return h.row.dead
}

// hostUp undoes hostDown. It reports whether the host is not dead then.
func (o *compute) hostUp(h *hostState) bool {
	_ = o.conductor.HostUp(background, h.name)
	return !h.row.dead
}

// reconcileDead repeats what hostDown does, as the conductor does every few seconds.
func (o *compute) reconcileDead() {
	for _, h := range o.deadHosts() {
		o.reasonsOfDead(h)
	}
	if o.conductor.ReconcileDeadHosts(background) != nil {
		for _, h := range o.deadHosts() {
			o.retryAll(h)
		}
	}
}

func (o *compute) deadHosts() (list []*hostState) {
	for _, name := range o.dead {
		list = append(list, o.hosts[name])
	}
	return list
}

func (o *compute) reasonsOfDead(h *hostState) {
	for id := range h.servers {
		o.reason(id, "dead")
	}
}

func (o *compute) retryAll(h *hostState) {
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		o.due.add(id)
	}
}
