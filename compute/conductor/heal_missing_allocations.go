package conductor

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// HostReported starts an audit of a host that has reported, unless its last one is recent. It does not wait for the
// audit.
func (c *Conductor) HostReported(host schedule.Host) { c.audits.reported(host) }

// HostConditions returns the conditions of a host that compute has found: those of its last audit, and whether its
// agent follows the assignments.
func (c *Conductor) HostConditions(host string) []string {
	return append(c.audits.conditions(host), c.notFollowingCondition(host)...)
}

// HostAudit audits a host now. It returns fault.NotFound if no agent has reported for it.
func (c *Conductor) HostAudit(ctx context.Context, name string) (Audit, error) {
	host, err := c.store.Host(ctx, name)
	if err != nil {
		return Audit{}, err
	}
	return c.audits.auditHost(ctx, host)
}

// AuditNext audits the host that has waited longest since HostReported. It returns false if no host waits.
func (c *Conductor) AuditNext(ctx context.Context) bool { return c.audits.auditNext(ctx) }

// HostHeal adds to Placement the allocations that an audit of a host finds missing, and removes nothing. It does not
// write a consumer for which there is no room, unless oversubscribe is set: then the use of the provider exceeds its
// capacity. The returned audit has the outcome for each consumer. It returns fault.NotFound if no agent has reported
// for the host.
func (c *Conductor) HostHeal(ctx context.Context, name string, oversubscribe bool) (Audit, error) {
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return Audit{}, err
	}
	defer stop()
	host, err := c.store.Host(ctx, name)
	if err != nil {
		return Audit{}, err
	}
	found, err := c.audits.auditHost(ctx, host)
	if err != nil {
		return found, err
	}
	for i := range found.Missing {
		m := &found.Missing[i]
		alone := c.runner.Alone(m.Server, func() { err = c.healOne(ctx, host, m, oversubscribe) })
		if !alone {
			m.Outcome = "not written: a step of the server is due; try again later"
		}
		if err != nil {
			return found, err
		}
	}
	_, err = c.audits.auditHost(ctx, host)
	return found, err
}

// healOne adds what one consumer lacks, and sets the outcome. The caller must prevent that a step of the server is
// performed meanwhile. It returns an error if the database or Placement does not answer.
func (c *Conductor) healOne(ctx context.Context, host schedule.Host, m *Missing, oversubscribe bool) error {
	server, err := c.store.Read(ctx, m.Server)
	if err != nil {
		return err
	}
	expected := server.Expected(host.Name)
	i := slices.IndexFunc(expected, func(e lifecycle.Expectation) bool { return e.Consumer == m.Consumer })
	if i < 0 || len(server.Steps()) > 0 {
		m.Outcome = "not written: the server has changed in the meantime"
		return nil
	}
	for attempt := range claimTries {
		if attempt > 0 {
			c.pause(ctx, attempt)
		}
		err = c.writeBack(ctx, server, expected[i], host.Provider, m.Lacks, oversubscribe)
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			break
		}
	}
	switch {
	case fault.Is(err, fault.Unavailable):
		return err
	case err == nil:
		m.Outcome, m.Healed = "written", true
	case fault.Is(err, fault.Conflict) && !oversubscribe:
		m.Outcome = "not written: " + fault.TextOf(err) + "; --oversubscribe writes it without room"
	default:
		m.Outcome = "not written: " + fault.TextOf(err)
	}
	return nil
}

// writeBack adds to the allocation of a consumer what it lacks of its expectation now, on the providers of on.
func (c *Conductor) writeBack(ctx context.Context, s lifecycle.Server, e lifecycle.Expectation, root provider.ID,
	on resource.Allocation, oversubscribe bool) error {
	consumer := resource.ConsumerID(e.Consumer)
	held, err := c.placement.Allocation(ctx, consumer)
	if err != nil {
		return err
	}
	has := holdings{}
	for id := range on {
		has[id] = map[resource.ConsumerID]resource.Amounts{consumer: held.Allocation[id]}
	}
	e.Also = nil
	added := lacking(e, root, has)
	if len(added) == 0 {
		return nil // another client has added it
	}
	held.Allocation, held.Project, held.User = union(held.Allocation, added), s.Project, s.User
	if held.ConsumerType = "INSTANCE"; e.Consumer != s.ID {
		held.ConsumerType = "MIGRATION"
	}
	err = c.placement.PutAllocation(ctx, consumer, held)
	if !oversubscribe || !refused(err) || fault.Is(err, fault.Forbidden) {
		return err
	}
	all := map[resource.ConsumerID]placement.ConsumerAllocation{consumer: held}
	return c.putWithRoom(ctx, all, held.Allocation, added, err)
}

// union returns the sum of two allocations.
func union(a, b resource.Allocation) resource.Allocation {
	out := resource.Allocation{}
	for id, amounts := range a {
		out[id] = maps.Clone(amounts)
	}
	for id, amounts := range b {
		if out[id] == nil {
			out[id] = resource.Amounts{}
		}
		for class, n := range amounts {
			out[id][class] += n
		}
	}
	return out
}
