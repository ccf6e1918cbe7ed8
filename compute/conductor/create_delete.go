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

// Delete starts the deletion of a server. A second request is not an error. It returns fault.NotFound if the server
// does not exist or is shown as deleted. A server is shown as deleted at once if the agent that must destroy its guest
// does not report.
func (c *Conductor) Delete(ctx context.Context, id string, by lifecycle.Caller) error {
	server, err := c.store.Read(ctx, id)
	if err != nil {
		return err
	}
	if !server.Ended.IsZero() {
		return fault.New(fault.NotFound, "server %s is deleted already", id)
	}
	silent := false
	for _, residence := range server.Residences() {
		alive, err := c.Agents.WhyAlive(ctx, residence.Host)
		if err != nil {
			return err
		}
		silent = silent || alive == ""
	}
	exists := c.Agents.MayHave(server.Host, id)
	_, err = c.runner.Apply(ctx, id, lifecycle.DeleteRequested{By: by, Silent: silent, Exists: exists,
		MayHavePorts: c.Network != nil})
	return err
}
