package sim

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// start begins a process of the agent on its journal. It returns false if the journal was written on another machine.
func (am *agentModel) start(m *simHost) bool {
	m.disk.state, m.disk.durable = m.disk.found, m.disk.followed
	found := m.disk.found
	if am.broken == Backward {
		found = found.With(journalPosition{}.Entry())
	}
	id := am.name("p")
	machine, err := reconcile.New(am.config(m), found, id)
	if err != nil {
		am.report.Happened["copy on another machine"]++
		return false
	}
	m.agent = &agent{state: machine, start: id, followed: map[journalPosition]stamp{}, confirmed: map[string]bool{},
		named: map[string]bool{}, placed: map[resource.ConsumerID]bool{}}
	m.stuck, m.zombie = false, m.zombie || m.host.row.dead
	am.event(m, state.Start{})
	am.mark(m)
	return true
}

// event gives the agent an event, and begins the effects that follow from it.
func (am *agentModel) event(m *simHost, e state.Event) {
	a := m.agent
	for _, e := range a.state.Next(e, am.agentTime()) {
		am.begin(m, e)
		if m.agent != a {
			return // it has stopped
		}
	}
	a.deadline = a.state.Deadline()
	am.mark(m)
}

// begin begins an effect.
func (am *agentModel) begin(m *simHost, e state.Effect) {
	a := m.agent
	switch e := e.(type) {
	case state.Log:
		am.logged(m, e)
	case state.Stop:
		am.stopped(m, e.Err)
	case state.Watch:
		a.watch = &e
	case state.Cancel:
		for _, f := range a.effects {
			if state.WorkOf(f.Effect) == e.Work {
				f.cancelled = true
			}
		}
	case state.Force: // it changes nothing that is modelled
	case state.WriteJournal:
		a.unwritten = true
		a.effects = append(a.effects, &effect{Effect: e, compute: am.compute.process})
	case state.Destroy:
		a.effects = append(a.effects, &effect{Effect: e, compute: am.compute.process, named: a.named[e.ID]})
	default:
		a.effects = append(a.effects, &effect{Effect: e, compute: am.compute.process})
	}
}

// logged notes that the agent will try something again. What has failed often waits for an operator.
func (am *agentModel) logged(m *simHost, e state.Log) {
	const often = 12
	for i := 0; i+1 < len(e.Attrs); i += 2 {
		if attempts, is := e.Attrs[i+1].(int); is && e.Attrs[i] == "attempts" {
			am.progress = am.progress || attempts < often
		}
	}
	if e.Warn {
		am.log = append(am.log, entry{n: am.n, kind: "log", at: m.tag, text: fmt.Sprint(e.Message, e.Attrs)})
	}
}

// stopped ends a process that has stopped with a fault. A configuration that it refuses is taken back, as an operator
// does.
func (am *agentModel) stopped(m *simHost, err error) {
	a := m.agent
	am.crash(m)
	switch {
	case fault.Is(err, fault.Conflict):
		am.report.Happened["start not admitted"]++
	case fault.Is(err, fault.Invalid):
		am.report.Happened["start refused"]++
		am.changeRules(m, a.state.Devices(), err)
	default:
		am.violation(m, "start: the agent stops: %v", err)
	}
}

// changeRules configures a host otherwise after its agent has refused the configuration. A new journal is deleted
// first: it has the classes of the refused configuration.
func (am *agentModel) changeRules(m *simHost, held device.Set, why error) {
	if m.fresh {
		m.disk = disk{}
	}
	m.refused++
	switch {
	case m.refused <= usualRules:
		m.rule = (m.rule + 1) % usualRules
	case m.refused == usualRules+1:
		am.offerHeld(m, held)
	default:
		am.refusedForGood(m, why)
		return
	}
	am.start(m)
}

// refusedForGood leaves an agent stopped that accepts no configuration. That may happen only after Placement's database
// was restored, which then has another class on a provider than the guests hold. The operator repairs Placement first.
func (am *agentModel) refusedForGood(m *simHost, err error) {
	if len(am.altered) == 0 {
		am.violation(m, "start: no configuration is accepted: %v", err)
	}
	am.report.Happened["start refused for good"]++
	m.stuck, m.refused = true, 0
}

// crash ends the process of an agent. Each of its effects may be performed nevertheless, and of a write some of the
// first entries may be on the disk.
func (am *agentModel) crash(m *simHost) {
	a := m.agent
	if a == nil {
		return
	}
	am.disconnect(m)
	for _, f := range a.effects {
		if write, is := f.Effect.(state.WriteJournal); is && f.result == nil {
			am.writePart(m, am.brokenEntries(write.Entries))
		} else if f.result == nil && am.halfTheTime() {
			am.perform(m, f)
		}
	}
	m.agent = nil
	am.mark(m)
}

// act lets an agent do one thing, if there is one to do.
func (am *agentModel) act(m *simHost) bool {
	a := m.agent
	if a == nil || m.frozen {
		return false
	}
	actions := len(a.effects)
	var more []func()
	if a.watch != nil {
		more = append(more, func() { am.openStream(m) })
	}
	if a.inbox != nil || a.ended || a.hasNews(m) {
		more = append(more, func() { am.readStream(m) })
	}
	if !a.deadline.IsZero() && !am.agentTime().Before(a.deadline) {
		more = append(more, func() { am.event(m, state.Tick{}) })
	}
	if actions+len(more) == 0 {
		return false
	}
	i := am.rng.IntN(actions + len(more))
	if i >= actions {
		more[i-actions]()
	} else {
		am.proceed(m, i)
	}
	if m.agent == a && am.chance(Crashes, 1000) {
		am.report.Happened["crash"]++
		am.crash(m)
	}
	return true
}

// proceed performs an effect in progress, or delivers its result.
func (am *agentModel) proceed(m *simHost, i int) {
	a := m.agent
	f := a.effects[i]
	if f.result == nil {
		f.result = am.perform(m, f)
		text := faultOf(f.result)
		am.note(nameOf(f.Effect), state.WorkOf(f.Effect), m.tag, describe(f.Effect)+text)
		am.progress = am.progress || text == "" && changes(f.Effect)
		if am.chance(Answers, 4) {
			return // the answer comes later
		}
	}
	a.effects = append(a.effects[:i:i], a.effects[i+1:]...)
	if written, is := f.result.(state.Written); is && written.Err == nil {
		a.unwritten = false
	}
	am.event(m, f.result)
}

// changes reports whether an effect changes something, so that a cloud in which it is performed is not quiescent.
func changes(e state.Effect) bool {
	switch e.(type) {
	case state.ReportHost, state.SendAlive, state.Observe, state.ReadUses, state.ReadAllocations,
		state.ReadAllocation, state.ListGuests:
		return false
	}
	return true
}

// nameOf is the name of the type of an effect.
func nameOf(e state.Effect) string { return reflect.TypeOf(e).Name() }

// describe is what the story of a failure has of an effect beside its type and its work.
func describe(e state.Effect) string {
	var words []string
	switch e := e.(type) {
	case state.WriteProvider:
		return e.Step.String() + " "
	case state.ConfigureVFs:
		for _, vf := range e.VFs {
			words = append(words, vf.Device.String()+" for "+vf.Port.ID)
		}
	case state.ResetVFs:
		for _, id := range e.Devices {
			words = append(words, id.String())
		}
	}
	return strings.Join(append(words, ""), " ")
}

// faultOf is the text of the fault of an event; empty without one.
func faultOf(e state.Event) string {
	if err, is := reflect.ValueOf(e).FieldByName("Err").Interface().(error); is && err != nil {
		return fault.TextOf(err)
	}
	return ""
}

// changed reports to the agent that the devices of its host have changed, as the kernel does.
func (am *agentModel) changed(m *simHost) {
	if m.agent != nil && am.broken != Unlooked {
		am.event(m, state.DevicesChanged{})
	}
	am.mark(m)
}

// settle changes a configuration back that the agent of the host would not accept at its next start, as one that was
// made while a device was away that is back now.
func (am *agentModel) settle(m *simHost) {
	if am.accepts(m) {
		return
	}
	for range usualRules {
		if m.rule = (m.rule + 1) % usualRules; am.accepts(m) {
			break
		}
	}
	if state, _ := am.dryRun(m); !am.accepts(m) {
		am.offerHeld(m, state.Devices())
	}
	am.crash(m)
	am.start(m)
}
