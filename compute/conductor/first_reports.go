package conductor

import (
	"context"
	"time"
)

// openGate waits until the hosts of AwaitReports have reported, at most firstReports.
func (c *Conductor) openGate(ctx context.Context) error {
	reported, err := c.AwaitReports(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(c.firstReports)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-reported:
	case <-timer.C:
		missing := c.StopAwaiting()
		c.dependencies.Log.Warn("hosts have not reported since compute's start", "hosts", missing, "waited", c.firstReports)
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
		c.dependencies.Log.Warn("hosts not read at compute's start, will retry", "error", err)
		c.Pause(ctx, min(attempt, 100))
	}
}
