package conductor

import (
	"cmp"
	"context"
	"fmt"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
)

// Act starts an action that a user or an operator requests on a server, and returns the server as it is then. It
// returns fault.Conflict, in the Compute API's sentence, if the state of the server, its devices or the host do not
// allow the action; fault.NotFound if the server does not exist or is deleted.
func (c *Conductor) Act(ctx context.Context, id string, action lifecycle.ActionRequested) (lifecycle.Server, error) {
	server, err := c.store.Read(ctx, id)
	if err != nil {
		return server, err
	}
	if !server.Ended.IsZero() {
		return server, fault.New(fault.NotFound, "server %s is deleted", id)
	}
	refusal := server.Refuse(action.Action, action.Hard)
	if refusal == "" {
		if refusal, err = c.prepareAction(ctx, server, &action); err != nil {
			return server, err
		}
	}
	if refusal != "" {
		return server, fault.New(fault.Conflict, "%s", refusal)
	}
	server, err = c.runner.Apply(ctx, id, action)
	if err == nil && server.LastAction != action.ID { // the server has changed since it was read
		err = fault.New(fault.Conflict, "%s", cmp.Or(server.Refuse(action.Action, action.Hard),
			"the server has changed; try again"))
	}
	return server, err
}

// prepareAction completes an action with what the state of the host decides. It returns why the action must be refused
// for reasons other than the server's state; empty if it may start.
func (c *Conductor) prepareAction(ctx context.Context, s lifecycle.Server,
	action *lifecycle.ActionRequested) (refusal string, err error) {
	switch action.Action {
	case lifecycle.Shelve:
		action.DiskFormat, refusal, err = c.prepareShelve(ctx, s)
		return refusal, err
	case lifecycle.Snapshot, lifecycle.Backup:
		action.DiskFormat, refusal, err = c.prepareCopy(ctx, s, action.Action)
		return refusal, err
	case lifecycle.Unshelve:
		return c.refuseUnshelve(ctx, s, *action), nil
	case lifecycle.Live:
		if refusal = scheduler.WhyNotLive(s); refusal != "" {
			return refusal, nil
		}
		return c.Scheduler.WhyNotLiveFrom(ctx, s)
	case lifecycle.Migrate:
		return c.Scheduler.WhyNotCold(ctx, s)
	case lifecycle.Resize:
		if action.SameHost {
			return "", nil
		}
		return c.Scheduler.WhyNotCold(ctx, s)
	case lifecycle.Evacuate:
		reports, err := c.Agents.WhyAlive(ctx, s.Host)
		if err == nil && reports == "" {
			if refusal, err = c.refuseEvacuation(ctx, s); err != nil || refusal != "" {
				return refusal, err
			}
			action.LosesDisk, err = c.losesDisk(ctx, s)
			return "", err
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Compute service of %s is still in use: %s. A server is not evacuated from a host that may "+
			"still run it; wait until its agent is silent, or declare the host dead (`berth host down %s`)",
			s.Host, reports, s.Host), nil
	case lifecycle.Revert:
		reports, err := c.Agents.WhyAlive(ctx, s.Move.From.Host)
		if err == nil && reports == "" {
			return fmt.Sprintf("Cannot '%s' instance %s: its previous host %s does not report",
				action.Action, s.ID, s.Move.From.Host), nil
		}
		return "", err
	}
	return "", nil
}

// ChangePort records that a port is to be attached to a server, or detached, after the changes that were recorded
// before. It returns fault.Conflict if the server cannot have changes of its ports now, or has too many. A port that
// the network service has deleted is detached later then.
func (c *Conductor) ChangePort(ctx context.Context, id string, event lifecycle.PortChangeRequest) error {
	what, change := event.PortChange()
	if change == "" { // a deleted port
		_, err := c.runner.Apply(ctx, id, event)
		return err
	}
	s, err := c.store.Read(ctx, id)
	if err != nil {
		return err
	}
	if refusal := s.RefusePortRequest(what); refusal != "" {
		return fault.New(fault.Conflict, "%s", refusal)
	}
	s, err = c.runner.Apply(ctx, id, event)
	if err == nil && s.LastAction != change { // the server has changed since it was read
		return fault.New(fault.Conflict, "%s", cmp.Or(s.RefusePortRequest(what), "the server has changed; try again"))
	}
	return err
}
