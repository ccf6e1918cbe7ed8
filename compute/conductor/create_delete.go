package conductor

import (
	"context"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// Create records all servers or none, and returns them as stored, in BUILD. It returns fault.Conflict if an id is
// taken.
func (c *Conductor) Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error) {
	made := make([]lifecycle.Server, len(servers))
	for i, s := range servers {
		made[i], _ = lifecycle.Next(s, lifecycle.Created{}, c.Now())
	}
	c.Agents.Created(made)
	err := c.store.Create(ctx, made...)
	for i := range made {
		made[i].Revision = 1
		c.runner.WakeFrom(ctx, made[i].ID, made[i]) // also after an error, because only the answer may have been lost
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Delete starts the deletion of a server; with [DEFAULT] reclaim_instance_interval it can be restored. A second request
// is not an error. It returns fault.NotFound if the server does not exist or is shown as deleted. A server is shown as
// deleted at once if the agent that must destroy its guest does not report.
func (c *Conductor) Delete(ctx context.Context, id string, by lifecycle.Caller) error {
	return c.deleteNow(ctx, id, lifecycle.DeleteRequested{By: by, Soft: c.ReclaimInterval > 0})
}

// ForceDelete starts the deletion of a server, also of one that can be restored, as Delete does without the option.
func (c *Conductor) ForceDelete(ctx context.Context, id string, by lifecycle.Caller) error {
	return c.deleteNow(ctx, id, lifecycle.DeleteRequested{By: by})
}

func (c *Conductor) deleteNow(ctx context.Context, id string, request lifecycle.DeleteRequested) error {
	server, err := c.store.Read(ctx, id)
	if err != nil {
		return err
	}
	if !server.Ended.IsZero() {
		return fault.New(fault.NotFound, "server %s is deleted already", id)
	}
	return c.delete(ctx, server, request)
}

// delete completes a request to delete a server with what is known of its hosts, and records it.
func (c *Conductor) delete(ctx context.Context, server lifecycle.Server, request lifecycle.DeleteRequested) error {
	silent := false
	for _, residence := range server.Residences() {
		alive, err := c.Agents.WhyAlive(ctx, residence.Host)
		if err != nil {
			return err
		}
		silent = silent || alive == ""
	}
	request.Silent, request.Exists = silent, c.Agents.MayHave(server.Host, server.ID)
	request.MayHavePorts = c.Network != nil
	_, err := c.runner.Apply(ctx, server.ID, request)
	return err
}
