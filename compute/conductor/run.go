package conductor

import (
	"context"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	purgeEvery     = 10 * time.Minute // how often deleted servers are purged
	deadHostsEvery = 10 * time.Second // how often servers on dead hosts are reconciled
	keepFor        = 24 * time.Hour   // how long the record of a deleted server is kept
	maxKept        = 1000             // how many deleted servers are kept at most
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
			c.dependencies.Log.Warn("periodic task failed, will retry", "task", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
