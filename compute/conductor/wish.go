package conductor

import (
	"context"
	"fmt"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// Ask begins what a user or an operator wants of a server, and returns it as it is then. fault.Conflict when its state, its devices
// or the host do not allow it, in the Compute API's sentence; fault.NotFound when there is none or it is deleted.
func (c *Conductor) Act(ctx context.Context, id string, wish lifecycle.ActionRequested) (lifecycle.Server, error) {
	const op = "conductor.Ask"
	server, err := c.store.Read(ctx, id)
	if err != nil {
		return server, err
	}
	if !server.Ended.IsZero() {
		return server, fault.New(fault.NotFound, op, "server %s is deleted", id)
	}
	refusal := server.Refuse(wish.Action, wish.Hard)
	if refusal == "" {
		if refusal, err = c.unfit(ctx, server, wish); err != nil {
			return server, err
		}
	}
	if refusal != "" {
		return server, fault.New(fault.Conflict, op, "%s", refusal)
	}
	server, err = c.runner.Apply(ctx, id, wish)
	if err == nil && server.LastAction != wish.ID { // it has changed since we looked
		err = fault.New(fault.Conflict, op, "%s", server.Refuse(wish.Action, wish.Hard))
	}
	return server, err
}

// unfit says what is against a wish beside the server's state.
func (c *Conductor) unfit(ctx context.Context, s lifecycle.Server, wish lifecycle.ActionRequested) (string, error) {
	switch wish.Action {
	case lifecycle.Live:
		for _, r := range s.Requests {
			if !r.LiveMigratable() {
				return fmt.Sprintf("Cannot '%s' instance %s: its devices of alias %s are not explicitly requested as live-migratable", wish.Action, s.ID, r.Alias), nil
			}
		}
	case lifecycle.Evacuate:
		reports, err := c.silent(ctx, s.Host)
		if err != nil || reports == "" {
			return "", err
		}
		return fmt.Sprintf("Compute service of %s is still in use: %s. Nothing is evacuated from a host that may still run it; "+
			"wait until it is silent, or say that it is dead (`berth host down %s`)", s.Host, reports, s.Host), nil
	case lifecycle.Revert:
		reports, err := c.silent(ctx, s.Move.From.Host)
		if err == nil && reports == "" {
			return fmt.Sprintf("Cannot '%s' instance %s: the host %s, where it was, does not report", wish.Action, s.ID, s.Move.From.Host), nil
		}
		return "", err
	}
	return "", nil
}

// silent says in a sentence how the agent of a host still reports; empty when it does not, or an operator says that the host is dead.
func (c *Conductor) silent(ctx context.Context, name string) (reports string, err error) {
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
	return c.alive(host.Name), nil
}

// alive says in a sentence how the agent of a host has shown that it lives; empty when it has not for schedule.Silence.
func (c *Conductor) alive(host string) string {
	switch connected, quiet := c.presence.alive(host); {
	case connected:
		return "its agent is connected"
	case quiet < schedule.Silence:
		return fmt.Sprintf("its agent has been silent for %.0f s", quiet.Seconds())
	}
	return ""
}

// HostDown takes an operator's word that a host is dead for good: what servers have left there is given back without its agent,
// and nothing is put there. It is the one way in which something is freed that no agent says is gone.
func (c *Conductor) HostDown(ctx context.Context, host string) error {
	c.burying.Lock()
	err := c.store.SetDead(ctx, host, true, c.now())
	c.burying.Unlock()
	if err != nil {
		return err
	}
	c.presence.buried(host)
	return c.bury(ctx)
}

// HostUp takes the word back. What was freed meanwhile stays so; its agent will end the guests that are not assigned there any more.
func (c *Conductor) HostUp(ctx context.Context, host string) error {
	c.burying.Lock()
	defer c.burying.Unlock()
	return c.store.SetDead(ctx, host, false, c.now())
}

// bury tells the servers on dead hosts, again and again: a server may come to leave something there later.
func (c *Conductor) bury(ctx context.Context) error {
	c.burying.Lock()
	defer c.burying.Unlock()
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
