package conductor

import (
	"context"
	"fmt"
	"time"

	"github.com/openberth/berth/fault"
)

// Connected records that an agent has an open stream of assignments, until the returned function is called.
func (c *Conductor) Connected(host string) (closed func()) { return c.presence.streamOpened(host) }

// LastSign returns whether the agent of a host has an open stream, and the time since its last sign of life. The time
// is measured with the monotonic clock, at most since compute's start. An open stream does not make the agent alive.
func (c *Conductor) LastSign(host string) (connected bool, quiet time.Duration) {
	return c.presence.lastSign(host)
}

// IsSilent reports whether the last sign of life of a host is older than SilentAfter, measured with the monotonic
// clock.
func (c *Conductor) IsSilent(host string) bool {
	return c.presence.sinceReport(host, c.Silence) > c.Silence
}

// SilentAfter returns the age of its last sign of life from which on a host counts as silent.
func (c *Conductor) SilentAfter() time.Duration { return c.Silence }

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
// the time that SilentAfter returns.
func (c *Conductor) agentLiveness(host string) string {
	if failed := c.StartFailure(host).Why; failed != "" {
		return "its agent runs, and cannot report the host: " + failed
	}
	if _, quiet := c.presence.lastSign(host); quiet < c.Silence {
		return fmt.Sprintf("its agent has been silent for %.0f s, and counts as alive until %.0f s", quiet.Seconds(),
			c.Silence.Seconds())
	}
	return ""
}
