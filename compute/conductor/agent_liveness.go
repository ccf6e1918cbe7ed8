package conductor

import (
	"context"
	"fmt"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// Connected records that a start of an agent has an open stream of assignments, until the returned function is called.
func (c *Conductor) Connected(host string, from schedule.Sender) (closed func()) {
	return c.presence.streamOpened(host, from.Start)
}

// LastSign returns whether the agent of a host has an open stream, and the time since its last sign of life: a report
// or the end of a stream. The time is measured with the monotonic clock, at most since compute's start.
func (c *Conductor) LastSign(host string) (connected bool, quiet time.Duration) {
	return c.presence.lastSign(host)
}

// SinceReport returns the age of a host's last report, measured with the monotonic clock.
func (c *Conductor) SinceReport(host string) time.Duration { return c.presence.sinceReport(host) }

// whyAlive returns why the agent of a host counts as alive, as a clause; empty if it is silent, or if an operator has
// declared the host dead.
func (c *Conductor) whyAlive(ctx context.Context, name string) (reports string, err error) {
	dead, err := c.store.Dead(ctx)
	if err != nil {
		return "", err
	}
	for _, host := range dead {
		if host == name {
			return "", nil
		}
	}
	host, err := c.store.Host(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return c.agentLiveness(host.Name), nil
}

// agentLiveness returns the last sign of life of the agent of a host, as a clause; empty if there was none for
// schedule.Silence.
func (c *Conductor) agentLiveness(host string) string {
	switch connected, quiet := c.presence.lastSign(host); {
	case connected:
		return "its agent is connected"
	case quiet < schedule.Silence:
		return fmt.Sprintf("its agent has been silent for %.0f s", quiet.Seconds())
	}
	return ""
}
