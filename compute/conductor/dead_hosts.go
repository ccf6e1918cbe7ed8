package conductor

import (
	"context"
	"errors"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// HostDown records that an operator has declared a host permanently dead: the allocations of leftovers on it are
// released without a report of its agent, and no server is placed on it. In all other cases an allocation is released
// only after an agent has reported that the guest is gone.
func (c *Conductor) HostDown(ctx context.Context, host string) error {
	c.deadHosts.Lock()
	err := c.store.SetDead(ctx, host, true, c.Now())
	c.deadHosts.Unlock()
	if err != nil {
		return err
	}
	c.Agents.MarkDead(host)
	return c.ReconcileDeadHosts(ctx)
}

// HostUp reverses HostDown. Allocations that were released meanwhile stay released; the agent of the host destroys the
// guests that are no longer assigned to it.
func (c *Conductor) HostUp(ctx context.Context, host string) error {
	c.deadHosts.Lock()
	defer c.deadHosts.Unlock()
	return c.store.SetDead(ctx, host, false, c.Now())
}

// ReconcileDeadHosts applies lifecycle.HostDead to the servers on dead hosts. Run repeats it, because a server may
// leave something on a dead host later. A server that cannot be changed does not keep the others from it.
func (c *Conductor) ReconcileDeadHosts(ctx context.Context) (failed error) {
	c.deadHosts.Lock()
	defer c.deadHosts.Unlock()
	dead, err := c.store.Dead(ctx)
	if err != nil {
		return err
	}
	for _, host := range dead {
		servers, err := c.store.IDsOnHost(ctx, host)
		if err != nil {
			return err
		}
		for _, id := range servers {
			_, err := c.runner.Apply(ctx, id, lifecycle.HostDead{Host: host})
			if fault.Is(err, fault.Unavailable) {
				return err
			}
			if err != nil && !fault.Is(err, fault.NotFound) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}
