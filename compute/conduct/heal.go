package conduct

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// HostHeal writes back what Placement lacks of the servers on a host, beside what it has of them, and nothing else: nothing is taken from
// anybody. Where others hold so much that there is no room, that server is left out, unless oversubscribe is set: then the provider holds
// more than it has. The audit says of each what was done. fault.NotFound when no agent has reported for the host.
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
	found, err := c.auditWhole(ctx, host)
	if err != nil {
		return found, err
	}
	for i := range found.Missing {
		m := &found.Missing[i]
		alone := c.runner.Alone(m.Server, func() { m.Outcome, m.Healed, err = c.healOne(ctx, host.Name, host.Provider, *m, oversubscribe) })
		if !alone {
			m.Outcome = "not written: the server is on its way; try again later"
		}
		if err != nil {
			return found, err
		}
	}
	_, err = c.auditWhole(ctx, host)
	return found, err
}

// healOne writes what one consumer lacks, while no step of its server is performed. The error is one of the database, or Placement does not answer.
func (c *Conductor) healOne(ctx context.Context, host string, root provider.ID, m Missing, oversubscribe bool) (outcome string, healed bool, err error) {
	server, err := c.store.Read(ctx, m.Server)
	if err != nil {
		return "", false, err
	}
	expected := server.Expected(host)
	i := slices.IndexFunc(expected, func(e lifecycle.Expectation) bool { return e.Consumer == m.Consumer })
	if i < 0 || len(server.Steps()) > 0 {
		return "not written: the server has changed meanwhile", false, nil
	}
	for attempt := range claimTries {
		if attempt > 0 {
			c.pause(ctx, attempt)
		}
		err = c.writeBack(ctx, server, expected[i], root, m.Lacks, oversubscribe)
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			break
		}
	}
	switch {
	case err == nil:
		return "written", true, nil
	case fault.Is(err, fault.Unavailable):
		return "", false, err
	case fault.Is(err, fault.Conflict) && !oversubscribe:
		return "not written: " + fault.TextOf(err) + "; --oversubscribe writes it all the same", false, nil
	}
	return "not written: " + fault.TextOf(err), false, nil
}

// writeBack gives a consumer what it lacks now of what is expected on these providers.
func (c *Conductor) writeBack(ctx context.Context, s lifecycle.Server, e lifecycle.Expectation, root provider.ID, on resource.Allocation, oversubscribe bool) error {
	consumer := resource.ConsumerID(e.Consumer)
	held, err := c.placement.Allocation(ctx, consumer)
	if err != nil {
		return err
	}
	has := map[provider.ID]map[resource.ConsumerID]resource.Amounts{}
	for id := range on {
		has[id] = map[resource.ConsumerID]resource.Amounts{consumer: held.Allocation[id]}
	}
	e.Also = nil
	added := lacking(e, root, has)
	if len(added) == 0 {
		return nil // somebody else was faster
	}
	held.Allocation, held.Project, held.User, held.ConsumerType = union(held.Allocation, added), s.Project, s.User, "INSTANCE"
	if e.Consumer != s.ID {
		held.ConsumerType = "MIGRATION"
	}
	err = c.placement.PutAllocation(ctx, consumer, held)
	if !oversubscribe || !refused(err) || fault.Is(err, fault.Forbidden) {
		return err
	}
	return c.giveWithRoom(ctx, map[resource.ConsumerID]placement.Held{consumer: held}, held.Allocation, added, err)
}

// union is what a consumer has with what it lacks.
func union(has, lacks resource.Allocation) resource.Allocation {
	out := resource.Allocation{}
	for id, amounts := range has {
		out[id] = maps.Clone(amounts)
	}
	for id, amounts := range lacks {
		if out[id] == nil {
			out[id] = resource.Amounts{}
		}
		for class, n := range amounts {
			out[id][class] += n
		}
	}
	return out
}
