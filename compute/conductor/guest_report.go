package conductor

import (
	"context"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/fault"
)

// Guest records what an agent reports of a guest: one of the lifecycle.Guest… events, whose Consumer is id. start is
// the start of the agent's process.
//
// A report of a guest that is unknown, or no longer on the host, is not an error: the agent learns that from its
// assignments. But a claim of such a guest is fault.Conflict, because the agent must not build it. A claim is also
// fault.Conflict while another host has a guest of the server that compute has not placed there, and fault.Unavailable
// before the hosts have reported to this process. A report that is older than the last one is fault.Conflict because of
// *presence.Late. A report from another start than the admitted one is fault.Conflict.
func (c *Conductor) Guest(ctx context.Context, id, start string, report lifecycle.Report) error {
	if err := c.Agents.CheckAdmitted(ctx, report.Host, report.Instance, start); err != nil {
		return err
	}
	var server lifecycle.Server
	owner, err := c.store.ServerOfConsumer(ctx, id)
	if err == nil {
		err = c.checkGuestReport(ctx, owner, report.Event)
	}
	if err == nil {
		server, err = c.runner.Apply(ctx, owner, report)
	}
	if err == nil {
		c.failures.Record(report.Event, server, c.Now())
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if latest := server.Latest(report.Host, report.Instance); report.Number < latest {
		return fault.Wrap(fault.Conflict, &presence.Late{Number: latest})
	}
	if gone, is := report.Event.(lifecycle.GuestGone); is {
		return c.store.RemovalDone(ctx, gone.Host, id)
	}
	if claim, ok := report.Event.(lifecycle.GuestClaimed); ok && (err != nil || !server.Expects(id, claim.Host)) {
		return fault.New(fault.Conflict, "server %s is not, or no longer, assigned to host %s; "+
			"build nothing, and wait for the next line of assignments", id, claim.Host)
	}
	return nil
}
