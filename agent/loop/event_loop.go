// Package loop is the agent process of one host. Package reconcile decides what the agent does; this package performs
// the effects that it returns, and delivers the events: their results, the messages of compute, changes of the host's
// devices, and the time.
//
//	/sys, hypervisor, Placement, compute, journal ──▶ events ──▶ reconcile.State.Next ──▶ effects ──┐
//	             ▲                                                                                  │
//	             └────────── one goroutine for each effect in progress ◀────────────────────────────┘
//
// One goroutine calls Next, so that decisions are made one after the other. Effects run beside each other; the lock of
// the state is never held while one runs, so neither a slow disk nor a slow hypervisor delays reports.
package loop

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// Run runs the agent until ctx ends, and then returns nil. An agent runs once.
//
// Faults: Unavailable when the journal is lost; Conflict when another agent uses the journal or the host's name on
// this machine, when the journal was written on another machine, or when compute reports that another agent serves the
// host; Invalid when the configuration cannot be reported; those of the hypervisor and of Placement, except
// Unavailable, which Run waits out.
func (a *Agent) Run(ctx context.Context) error {
	defer a.endSessions(ctx)
	if err := a.o.Facts.Check(); err != nil {
		return err
	}
	j, err := journal.Open(a.o.Dir)
	if err != nil {
		return err
	}
	defer a.close(j)
	if a.o.LockDir != "" {
		lock, err := journal.LockHost(a.o.LockDir, a.o.Host)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	if a.o.LockID != nil {
		a.o.Machine.LockID = a.o.LockID(a.o.Dir)
	}
	state, err := reconcile.New(a.o.config(), j.State(), a.o.NewStart())
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.state = state
	a.mu.Unlock()
	if err := a.startHypervisor(ctx); err != nil {
		return err
	}
	a.start.Do(func() { close(a.Started) })
	ctx, unwatch := a.watched(ctx, j)
	defer unwatch()
	if err := a.serve(ctx, j); err != nil {
		return err
	}
	return j.Loss()
}

// endIdleSessions is endSessions, unless the agent runs and uses them.
func endIdleSessions(ctx context.Context, a *Agent) {
	a.mu.Lock()
	runs := a.state != nil
	a.mu.Unlock()
	if !runs {
		a.endSessions(ctx)
	}
}

// endSessions ends the sessions of the driver and of the source of facts. They begin again when they are needed.
func (a *Agent) endSessions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, one := range []any{a.o.Hypervisor, a.o.Facts} {
		if session, is := one.(interface{ Close(context.Context) }); is {
			session.Close(ctx)
		}
	}
}

// startHypervisor starts the driver. The fault is Invalid if the agent must end; others are logged, and the next
// observation tries again. A dry run starts no driver: it may run beside an agent.
func (a *Agent) startHypervisor(ctx context.Context) error {
	driver, ok := a.o.Hypervisor.(hypervisor.Starter)
	if !ok {
		return nil
	}
	err := driver.Start(ctx)
	if fault.Is(err, fault.Invalid) {
		return err
	}
	a.driverFailed.Store(err != nil)
	if err != nil {
		a.log.Warn("hypervisor start failed, will retry", "error", err)
	}
	return nil
}

// watched returns a context that also ends when the journal is lost; unwatch stops watching its files.
func (a *Agent) watched(ctx context.Context, j *journal.Journal) (watching context.Context, unwatch func()) {
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		j.Watch(watching)
		if err := j.Loss(); err != nil {
			a.log.Error("journal lost", "error", err)
		}
		cancel()
	})
	return watching, func() {
		cancel()
		watch.Wait()
	}
}

// close closes the journal after all goroutines of the agent have ended.
func (a *Agent) close(j *journal.Journal) {
	if err := j.Close(); err != nil {
		a.log.Warn("journal close failed", "error", err)
	}
}

// serve delivers events to the state machine and performs its effects, until ctx ends or the machine stops with a
// fault. It returns after all effects have ended.
func (a *Agent) serve(ctx context.Context, j *journal.Journal) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { a.listenEvents(ctx) })
	if a.o.Network != nil {
		running.Go(func() { a.sendHeartbeats(ctx) })
	}
	running.Go(func() { a.compareVFs(ctx) })
	running.Go(func() { syncBridges(ctx, a) })
	running.Go(func() { a.watchGuests(ctx) })
	running.Go(func() { a.checkHypervisor(ctx) })
	if driver, ok := a.o.Hypervisor.(hypervisor.Maintainer); ok {
		running.Go(func() { driver.Maintain(ctx) })
	}
	var event state.Event = state.Start{}
	for {
		effects, deadline := a.next(event)
		for _, e := range effects {
			if stop, is := e.(state.Stop); is {
				return stop.Err
			}
			a.begin(ctx, j, e, &running)
		}
		if event = a.await(ctx, deadline); event == nil {
			return nil
		}
		if done, is := event.(state.WorkDone); is {
			delete(a.cancels, done.Work)
			delete(a.forces, done.Work)
		}
	}
}

// next applies an event.
func (a *Agent) next(e state.Event) (effects []state.Effect, deadline time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.state.GuestEpoch()
	effects = a.state.Next(e, a.o.Now())
	if _, devices := e.(state.DevicesChanged); devices || a.state.GuestEpoch() != before {
		select {
		case a.compare <- struct{}{}:
		default: // a comparison is due already
		}
	}
	return effects, a.state.Deadline()
}

// await returns the next event: Tick at the deadline; nil when ctx has ended.
func (a *Agent) await(ctx context.Context, deadline time.Time) state.Event {
	var tick <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(deadline.Sub(a.o.Now()))
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-ctx.Done():
		return nil
	case e := <-a.events:
		return e
	case <-tick:
		return state.Tick{}
	}
}

// Report returns the host report as the agent would send it now.
func (a *Agent) Report() host.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		return host.Report{Host: a.o.Host, Devices: []host.Device{}, Conditions: []condition.Condition{}}
	}
	return a.state.Report()
}

// Heartbeats returns what the network service must receive about this host; none before Run.
func (a *Agent) Heartbeats() []bandwidth.Heartbeat {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		return nil
	}
	list := a.state.Heartbeats()
	if a.o.Bridges != nil {
		list = append(list, a.o.BridgeAgent)
	}
	return list
}
