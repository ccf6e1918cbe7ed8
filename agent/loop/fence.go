package loop

import (
	"context"

	"github.com/openberth/berth/fault"
)

// admit asks compute whether this agent may serve the host. The fault is Conflict when another agent serves it. When
// compute does not answer, the first report asks again.
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

// firstReport sends the first host report; faults as of admit.
func (a *Agent) firstReport(ctx context.Context) error {
	a.mu.Lock()
	version := a.version
	a.mu.Unlock()
	return a.onlyConflict(a.waitForTakeover(ctx, func(ctx context.Context) error { return a.deliver(ctx, version) }))
}

// onlyConflict returns a Conflict and logs any other fault, because the later report and watch loops retry.
func (a *Agent) onlyConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap("", "loop.Run", err)
	}
	if err != nil {
		a.log.Info("admission not decided yet", "error", err)
	}
	return nil
}

// fence handles the fault of a report or a watch: a Conflict means that another agent serves the host. Then this agent
// changes nothing until compute accepts a report.
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

// unfence resumes work after compute has accepted a report. a.mu is held.
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
