package conductor

import (
	"context"
	"fmt"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// Late is the cause of the fault when a report of a guest is older than the last one from the same agent.
type Late struct {
	Number int64 // of the last report that was received from the agent
}

// Error returns the sentence.
func (l *Late) Error() string {
	return fmt.Sprintf("report not recorded: this agent has sent a newer report of the server, number %d; "+
		"report the present state with a larger number", l.Number)
}

// Guest records what an agent reports of a guest: one of the lifecycle.Guest… events, whose Consumer is id. start is
// the start of the agent's process.
//
// A report of a guest that is unknown, or no longer on the host, is not an error: the agent learns that from its
// assignments. But a claim of such a guest is fault.Conflict, because the agent must not build it. A claim is also
// fault.Conflict while another host has a guest of the server that compute has not placed there, and fault.Unavailable
// before the hosts have reported to this process. A report that is older than the last one is fault.Conflict because of
// *Late. A report from another start than the admitted one is fault.Conflict.
func (c *Conductor) Guest(ctx context.Context, id, start string, report lifecycle.Report) error {
	if err := c.checkAdmitted(ctx, report.Host, report.Instance, start); err != nil {
		return err
	}
	if gone, is := report.Event.(lifecycle.GuestGone); is {
		if err := c.store.RemovalDone(ctx, gone.Host, id); err != nil {
			return err
		}
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
		c.failures.record(report.Event, server, c.now())
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if latest := server.Latest(report.Host, report.Instance); report.Number < latest {
		return fault.Wrap(fault.Conflict, &Late{Number: latest})
	}
	if claim, ok := report.Event.(lifecycle.GuestClaimed); ok && (err != nil || !server.Expects(id, claim.Host)) {
		return fault.New(fault.Conflict, "server %s is not, or no longer, assigned to host %s; "+
			"build nothing, and wait for the next line of assignments", id, claim.Host)
	}
	return nil
}

// checkAdmitted returns fault.Conflict unless start is the admitted start of the agent of a host.
func (d *dependencies) checkAdmitted(ctx context.Context, host, instance, start string) error {
	h, err := d.store.Host(ctx, host)
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.Conflict, "no agent is admitted for host %s; send the report of the host first", host)
	case err != nil:
		return err
	case h.Instance != instance || h.Start != start:
		return fault.New(fault.Conflict,
			"another agent serves host %s; what instance %s reports of guests is not accepted", host, instance)
	}
	return nil
}
