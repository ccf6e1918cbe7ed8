package conductor

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	purgeEvery = 10 * time.Minute // how often deleted servers are purged
	keepFor    = 24 * time.Hour   // how long the record of a deleted server is kept
	maxKept    = 1000             // how many deleted servers are kept at most
)

// Resume queues every server that has steps to perform; Run performs them. It returns the fault of the database if the
// servers cannot be read.
func (c *Conductor) Resume(ctx context.Context) error {
	return fault.Wrap("", c.runner.Resume(ctx))
}

// runEvery calls do at once and then at each interval until ctx ends. It logs the errors of do.
func (c *Conductor) runEvery(ctx context.Context, every time.Duration, what string, do func() error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			c.Log.Warn("periodic task failed, will retry", "task", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// openGate waits until the hosts of AwaitReports have reported, at most firstReports.
func (c *Conductor) openGate(ctx context.Context) error {
	reported, err := c.Agents.AwaitReports(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(c.firstReports)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-reported:
	case <-timer.C:
		missing := c.Agents.StopAwaiting()
		c.Log.Warn("hosts have not reported since compute's start", "hosts", missing, "waited", c.firstReports)
	}
	return nil
}

// openGateWithRetry calls openGate until the database answers or ctx ends.
func (c *Conductor) openGateWithRetry(ctx context.Context) {
	for attempt := 1; ; attempt++ {
		err := c.openGate(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.Log.Warn("hosts not read at compute's start, will retry", "error", err)
		c.Pause(ctx, min(attempt, 100))
	}
}

// Run performs steps until ctx ends, and then returns nil. It calls Resume if Resume has not been called.
func (c *Conductor) Run(ctx context.Context) error {
	var background sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer background.Wait()
	defer cancel()
	background.Go(func() {
		c.runEvery(ctx, purgeEvery, "purge deleted servers", func() error {
			return c.store.Purge(ctx, c.Now().Add(-keepFor), maxKept)
		})
	})
	halves := halfUploads{dependencies: c.dependencies}
	background.Go(func() {
		c.runEvery(ctx, halfUploadsEvery, "delete images without data", func() error { return halves.remove(ctx) })
	})
	background.Go(func() { c.Audits.Run(ctx) })
	background.Go(func() { c.runMirror(ctx) })
	background.Go(func() {
		c.runEvery(ctx, c.Times.DeadHosts, "reconcile dead hosts", func() error { return c.ReconcileDeadHosts(ctx) })
	})
	background.Go(func() {
		c.runEvery(ctx, c.Times.Assignments, "check followed assignments",
			func() error { return c.CheckAssignments(ctx) })
	})
	background.Go(func() {
		c.runEvery(ctx, c.Times.Reclaim, "reclaim servers", func() error { return c.Reclaim(ctx) })
	})
	c.Agents.Watch()
	background.Go(func() {
		c.runEvery(ctx, receivesEvery, "check that reports can be received",
			func() error { return c.Agents.CheckReceives(ctx) })
	})
	background.Go(func() { c.openGateWithRetry(ctx) })
	return fault.Wrap(fault.Unavailable, c.runner.Run(ctx))
}
