package conductor

import (
	"context"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// reportsWithin is the longest time between two reports of a living agent.
const reportsWithin = time.Minute

// AwaitReports starts to wait for the first reports of the hosts whose agents were alive when the previous process
// ended. It does not block. Until they have reported, or until StopAwaiting, no step writes to Placement for a server
// that an earlier process has created; then the returned channel is closed. Run calls both.
func (c *Conductor) AwaitReports(ctx context.Context) (reported <-chan struct{}, err error) {
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	dead, err := c.store.Dead(ctx)
	if err != nil {
		return nil, err
	}
	c.presence.recall(hosts)
	c.presence.waitFor(recent(hosts, dead, c.Silence+reportsWithin))
	return c.presence.gate, nil
}

// StopAwaiting ends the wait for first reports, and returns the hosts that have not reported.
func (c *Conductor) StopAwaiting() (missing []string) { return c.presence.stopWaiting() }

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
		c.pause(ctx, min(attempt, 100))
	}
}

// recent lists the hosts whose last report is not much older than the newest one.
func recent(hosts []schedule.Host, dead []string, silence time.Duration) (names []string) {
	var newest time.Time
	for _, h := range hosts {
		if h.Seen.After(newest) {
			newest = h.Seen
		}
	}
	for _, h := range hosts {
		if newest.Sub(h.Seen) < silence && !slices.Contains(dead, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}
