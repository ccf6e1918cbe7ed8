package loop

import (
	"context"

	"github.com/openberth/berth/fault"
)

// admit asks compute whether this agent may serve the host. The fault is compute's Conflict: another one does. A compute that does not
// answer is asked again with the first report.
func (a *Agent) admit(ctx context.Context) error {
	a.mu.Lock()
	from := a.sender()
	a.mu.Unlock()
	return a.onlyConflict(a.waitForTakeover(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		return a.o.Compute.Admit(ctx, a.o.Host, from)
	}))
}

// firstReport tells compute of the host; the fault is as with admit.
func (a *Agent) firstReport(ctx context.Context) error {
	a.mu.Lock()
	version := a.version
	a.mu.Unlock()
	return a.onlyConflict(a.waitForTakeover(ctx, func(ctx context.Context) error { return a.deliver(ctx, version) }))
}

// onlyConflict leaves what else is wrong between the agent and compute to those who try again.
func (a *Agent) onlyConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap("", "loop.Run", err)
	}
	if err != nil {
		a.log.Info("compute does not say yet whether this agent may serve the host", "error", err)
	}
	return nil
}

// judge believes compute's answer to a report or a watch: a Conflict says that another agent serves the host, and then
// this one touches nothing any more.
func (a *Agent) fence(err error) {
	if !fault.Is(err, fault.Conflict) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fenced {
		return
	}
	a.fenced = true
	a.condition("instance", fault.TextOf(err)+"; until then nothing is built or destroyed")
	for _, j := range a.serverWorks {
		if j.cancel != nil {
			j.cancel()
		}
	}
}

// reinstate goes on: compute has taken a report. a.mu is held.
func (a *Agent) unfence() {
	if !a.fenced {
		return
	}
	a.fenced = false
	a.condition("instance")
	signal(a.wake)
	signal(a.syncNow)
}

func (a *Agent) isFenced() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fenced
}
