package sim

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// rescan is the interval of an agent between two syncs, by its clock.
const rescan = 10 * time.Minute

// slowness is how much slower than the clock of compute the clock of agents is, while there are failures: an operation
// of the simulation takes a second of compute's clock, and an agent of a cloud performs many effects in that time.
const slowness = 20

// config is the configuration of the agent of a machine.
func (w *World) config(m *simHost) reconcile.Config {
	known, _ := m.disk.found.Identity()
	first := known.Instance == ""
	return reconcile.Config{Host: m.name, Dir: m.tag, Rules: m.rules[m.rule], ReportInPlacement: true,
		ReportBandwidth: true, Bandwidth: m.bandwidth(), ReportNetwork: m.portVFs, ConfigureVFs: m.portVFs,
		Machine: reconcile.Machine{ID: m.install, LockID: m.tag},
		Rescan:  rescan, Alive: rescan, Parallel: 3, Jitter: w.rng.Float64,
		NewID: func() string { // of the agent, and then of the root provider
			if !first {
				return string(m.root)
			}
			first = false
			return w.name("i")
		}}
}

// start begins a process of the agent on its journal. It returns false if the journal was written on another machine.
func (w *World) start(m *simHost) bool {
	m.disk.state, m.disk.durable = m.disk.found, m.disk.followed
	found := m.disk.found
	if w.broken == Backward {
		found = found.With(journalPosition{}.Entry())
	}
	id := w.name("p")
	state, err := reconcile.New(w.config(m), found, id)
	if err != nil {
		w.report.Happened["copy on another machine"]++
		return false
	}
	m.agent = &agent{state: state, start: id, followed: map[journalPosition]stamp{}, confirmed: map[string]bool{},
		named: map[string]bool{}, placed: map[resource.ConsumerID]bool{}}
	m.stuck, m.zombie = false, m.zombie || m.host.row.dead
	w.event(m, reconcile.Start{})
	w.mark(m)
	return true
}

// event gives the agent an event, and begins the effects that follow from it.
func (w *World) event(m *simHost, e reconcile.Event) {
	a := m.agent
	for _, e := range a.state.Next(e, w.agentTime()) {
		w.begin(m, e)
		if m.agent != a {
			return // it has stopped
		}
	}
	a.deadline = a.state.Deadline()
	w.mark(m)
}

// begin begins an effect.
func (w *World) begin(m *simHost, e reconcile.Effect) {
	a := m.agent
	switch e := e.(type) {
	case reconcile.Log:
		w.logged(m, e)
	case reconcile.Stop:
		w.stopped(m, e.Err)
	case reconcile.Watch:
		a.watch = &e
	case reconcile.Cancel:
		for _, f := range a.effects {
			if reconcile.WorkOf(f.Effect) == e.Work {
				f.cancelled = true
			}
		}
	case reconcile.WriteJournal:
		a.unwritten = true
		a.effects = append(a.effects, &effect{Effect: e, compute: w.compute.process})
	case reconcile.Destroy:
		a.effects = append(a.effects, &effect{Effect: e, compute: w.compute.process, named: a.named[e.ID]})
	default:
		a.effects = append(a.effects, &effect{Effect: e, compute: w.compute.process})
	}
}

// logged notes that the agent will try something again. What has failed often waits for an operator.
func (w *World) logged(m *simHost, e reconcile.Log) {
	const often = 12
	for i := 0; i+1 < len(e.Attrs); i += 2 {
		if attempts, is := e.Attrs[i+1].(int); is && e.Attrs[i] == "attempts" {
			w.progress = w.progress || attempts < often
		}
	}
	if e.Warn {
		w.log = append(w.log, entry{n: w.n, kind: "log", at: m.tag, text: fmt.Sprint(e.Message, e.Attrs)})
	}
}

// stopped ends a process that has stopped with a fault. A configuration that it refuses is taken back, as an operator
// does.
func (w *World) stopped(m *simHost, err error) {
	a := m.agent
	w.crash(m)
	switch {
	case fault.Is(err, fault.Conflict):
		w.report.Happened["start not admitted"]++
	case fault.Is(err, fault.Invalid):
		w.report.Happened["start refused"]++
		w.changeRules(m, a.state.Devices(), err)
	default:
		w.violation(m, "start: the agent stops: %v", err)
	}
}

// changeRules configures a host otherwise after its agent has refused the configuration. A new journal is deleted
// first: it has the classes of the refused configuration.
func (w *World) changeRules(m *simHost, held device.Set, why error) {
	if m.fresh {
		m.disk = disk{}
	}
	m.refused++
	switch {
	case m.refused <= usualRules:
		m.rule = (m.rule + 1) % usualRules
	case m.refused == usualRules+1:
		w.offerHeld(m, held)
	default:
		w.refusedForGood(m, why)
		return
	}
	w.start(m)
}

// refusedForGood leaves an agent stopped that accepts no configuration. That may happen only after Placement's database
// was restored, which then has another class on a provider than the guests hold. The operator repairs Placement first.
func (w *World) refusedForGood(m *simHost, err error) {
	if len(w.altered) == 0 {
		w.violation(m, "start: no configuration is accepted: %v", err)
	}
	w.report.Happened["start refused for good"]++
	m.stuck, m.refused = true, 0
}

// crash ends the process of an agent. Each of its effects may be performed nevertheless, and of a write some of the
// first entries may be on the disk.
func (w *World) crash(m *simHost) {
	a := m.agent
	if a == nil {
		return
	}
	w.disconnect(m)
	for _, f := range a.effects {
		if write, is := f.Effect.(reconcile.WriteJournal); is && f.result == nil {
			w.writePart(m, w.brokenEntries(write.Entries))
		} else if f.result == nil && w.halfTheTime() {
			w.perform(m, f)
		}
	}
	m.agent = nil
	w.mark(m)
}

// act lets an agent do one thing, if there is one to do.
func (w *World) act(m *simHost) bool {
	a := m.agent
	if a == nil || m.frozen {
		return false
	}
	actions := len(a.effects)
	var more []func()
	if a.watch != nil {
		more = append(more, func() { w.openStream(m) })
	}
	if a.inbox != nil || a.ended || a.hasNews(m) {
		more = append(more, func() { w.readStream(m) })
	}
	if !a.deadline.IsZero() && !w.agentTime().Before(a.deadline) {
		more = append(more, func() { w.event(m, reconcile.Tick{}) })
	}
	if actions+len(more) == 0 {
		return false
	}
	i := w.rng.IntN(actions + len(more))
	if i >= actions {
		more[i-actions]()
	} else {
		w.proceed(m, i)
	}
	if m.agent == a && w.chance(Crashes, 1000) {
		w.report.Happened["crash"]++
		w.crash(m)
	}
	return true
}

// proceed performs an effect in progress, or delivers its result.
func (w *World) proceed(m *simHost, i int) {
	a := m.agent
	f := a.effects[i]
	if f.result == nil {
		f.result = w.perform(m, f)
		text := faultOf(f.result)
		w.note(nameOf(f.Effect), reconcile.WorkOf(f.Effect), m.tag, describe(f.Effect)+text)
		w.progress = w.progress || text == "" && changes(f.Effect)
		if w.chance(Answers, 4) {
			return // the answer comes later
		}
	}
	a.effects = append(a.effects[:i:i], a.effects[i+1:]...)
	if written, is := f.result.(reconcile.Written); is && written.Err == nil {
		a.unwritten = false
	}
	w.event(m, f.result)
}

// changes reports whether an effect changes something, so that a cloud in which it is performed is not quiescent.
func changes(e reconcile.Effect) bool {
	switch e.(type) {
	case reconcile.ReportHost, reconcile.SendAlive, reconcile.Observe, reconcile.ReadUses, reconcile.ReadAllocations,
		reconcile.ReadAllocation, reconcile.ListGuests:
		return false
	}
	return true
}

// nameOf is the name of the type of an effect.
func nameOf(e reconcile.Effect) string { return reflect.TypeOf(e).Name() }

// describe is what the story of a failure has of an effect beside its type and its work.
func describe(e reconcile.Effect) string {
	var words []string
	switch e := e.(type) {
	case reconcile.WriteProvider:
		return e.Step.String() + " "
	case reconcile.ConfigureVFs:
		for _, vf := range e.VFs {
			words = append(words, vf.Device.String()+" for "+vf.Port.ID)
		}
	case reconcile.ResetVFs:
		for _, id := range e.Devices {
			words = append(words, id.String())
		}
	}
	return strings.Join(append(words, ""), " ")
}

// faultOf is the text of the fault of an event; empty without one.
func faultOf(e reconcile.Event) string {
	if err, is := reflect.ValueOf(e).FieldByName("Err").Interface().(error); is && err != nil {
		return fault.TextOf(err)
	}
	return ""
}

// occupied is how a start of an agent learns that another one serves the host. wait is by compute's clock, 0: asking
// again is of no use.
func (w *World) occupied(wait time.Duration, why error) error {
	if wait == 0 {
		return fault.Wrap(fault.Conflict, why)
	}
	return fault.Wrap(fault.Conflict, &host.Occupied{Wait: w.agentWait(wait) + time.Millisecond, Err: why})
}

// hasNews reports whether compute has assignments that the agent has not read.
func (a *agent) hasNews(m *simHost) bool {
	return a.stream != nil && !m.cut && a.stream.read != m.host.row.revision
}
