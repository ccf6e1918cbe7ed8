package conductor

import (
	"context"
	"fmt"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// Act starts an action that a user or an operator requests on a server, and returns the server as it is then. It
// returns fault.Conflict, in the Compute API's sentence, if the state of the server, its devices or the host do not
// allow the action; fault.NotFound if the server does not exist or is deleted.
func (c *Conductor) Act(ctx context.Context, id string, action lifecycle.ActionRequested) (lifecycle.Server, error) {
	const op = "conductor.Act"
	server, err := c.store.Read(ctx, id)
	if err != nil {
		return server, err
	}
	if !server.Ended.IsZero() {
		return server, fault.New(fault.NotFound, op, "server %s is deleted", id)
	}
	refusal := server.Refuse(action.Action, action.Hard)
	if refusal == "" {
		if refusal, err = c.refusal(ctx, server, action); err != nil {
			return server, err
		}
	}
	if refusal != "" {
		return server, fault.New(fault.Conflict, op, "%s", refusal)
	}
	server, err = c.runner.Apply(ctx, id, action)
	if err == nil && server.LastAction != action.ID { // the server has changed since it was read
		err = fault.New(fault.Conflict, op, "%s", server.Refuse(action.Action, action.Hard))
	}
	return server, err
}

// refusal returns why an action must be refused for reasons other than the server's state; empty if it may start.
func (c *Conductor) refusal(ctx context.Context, s lifecycle.Server, action lifecycle.ActionRequested) (string, error) {
	switch action.Action {
	case lifecycle.Live:
		for _, r := range s.Requests {
			if !r.LiveMigratable() {
				return fmt.Sprintf("Cannot '%s' instance %s: its devices of alias %s are not explicitly requested as "+
					"live-migratable", action.Action, s.ID, r.Alias), nil
			}
		}
	case lifecycle.Evacuate:
		reports, err := c.whyAlive(ctx, s.Host)
		if err != nil || reports == "" {
			return "", err
		}
		return fmt.Sprintf("Compute service of %s is still in use: %s. A server is not evacuated from a host that may "+
			"still run it; wait until its agent is silent, or declare the host dead (`berth host down %s`)",
			s.Host, reports, s.Host), nil
	case lifecycle.Revert:
		reports, err := c.whyAlive(ctx, s.Move.From.Host)
		if err == nil && reports == "" {
			return fmt.Sprintf("Cannot '%s' instance %s: its previous host %s does not report",
				action.Action, s.ID, s.Move.From.Host), nil
		}
		return "", err
	}
	return "", nil
}

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

// HostDown records that an operator has declared a host permanently dead: the allocations of leftovers on it are
// released without a report of its agent, and no server is placed on it. In all other cases an allocation is released
// only after an agent has reported that the guest is gone.
func (c *Conductor) HostDown(ctx context.Context, host string) error {
	c.deadHosts.Lock()
	err := c.store.SetDead(ctx, host, true, c.now())
	c.deadHosts.Unlock()
	if err != nil {
		return err
	}
	c.presence.markDead(host)
	return c.ReconcileDeadHosts(ctx)
}

// HostUp reverses HostDown. Allocations that were released meanwhile stay released; the agent of the host destroys the
// guests that are no longer assigned to it.
func (c *Conductor) HostUp(ctx context.Context, host string) error {
	c.deadHosts.Lock()
	defer c.deadHosts.Unlock()
	return c.store.SetDead(ctx, host, false, c.now())
}

// ReconcileDeadHosts applies lifecycle.HostDead to the servers on dead hosts. Run repeats it, because a server may
// leave something on a dead host later.
func (c *Conductor) ReconcileDeadHosts(ctx context.Context) error {
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
			if _, err := c.runner.Apply(ctx, id, lifecycle.HostDead{Host: host}); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
	return nil
}
