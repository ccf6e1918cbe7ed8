package operations

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file computes the amounts of a consumer after a change. The difference of a policy is only right if the consumer
// has what its ports have been given: while a server moves, or if its allocation was lost, it has nothing there.

// change returns the plan as a record.
func (p *plan) change(ctx context.Context) (*store.Change, error) {
	c := &store.Change{Base: store.Base{ID: store.NewUUID()}, Consumers: map[string]store.ConsumerChange{}, Ports: p.ports,
		Deleted: p.removed}
	for _, consumer := range slices.Sorted(maps.Keys(p.diff)) {
		now, diff := p.now[consumer].Allocation, p.diff[consumer]
		before, after, refusal := binding.Amounts(now, diff)
		if len(p.removed) == 0 { // a port that is deleted releases what is there
			given, err := p.given(ctx, consumer)
			if err != nil {
				return nil, err
			}
			var at provider.ID
			if at, refusal = binding.CorrectAmounts(now, given, diff, after); refusal != "" {
				if err := p.checkNotMoving(ctx, consumer, string(at)); err != nil {
					return nil, err
				}
			}
		}
		if refusal != "" {
			return nil, fault.New(fault.Invalid, "the allocation of server %s cannot change: %s; run `berth heal ports`",
				consumer, refusal).WithCode("PlacementAllocationRpNotExists")
		}
		c.Consumers[consumer] = store.ConsumerChange{Before: before, After: after}
	}
	return c, nil
}

// given returns what the ports of a consumer have been given together, by their active bindings.
func (p *plan) given(ctx context.Context, consumer string) (resource.Allocation, error) {
	ports, err := List[store.Port](ctx, p.s, store.Filter{Devices: []string{consumer}})
	all := resource.Allocation{}
	for _, port := range ports {
		for _, share := range sharesOf(port.Allocated) {
			at := provider.ID(share.Provider)
			if all[at] == nil {
				all[at] = resource.Amounts{}
			}
			for class, n := range share.Amounts {
				all[at][class] += n
			}
		}
	}
	return all, err
}

// serverMoves is the code of the fault for a policy that changes while compute moves the server.
const serverMoves = "ServerMoves"

// migrationType is the type of the consumers that hold the allocation of the source of a move.
const migrationType = "MIGRATION"

// checkNotMoving returns fault.Conflict if a migration has amounts of a provider that a server should have: compute has
// given the migration what the server had there.
func (p *plan) checkNotMoving(ctx context.Context, server, at string) error {
	on, err := p.s.Placement.ProviderAllocations(ctx, provider.ID(at))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return fromPlacement(err)
	}
	own, err := p.allocation(ctx, server)
	if err != nil {
		return err
	}
	for _, consumer := range slices.Sorted(maps.Keys(on)) {
		if string(consumer) == server {
			continue
		}
		held, err := p.s.Placement.Allocation(ctx, consumer)
		if err != nil {
			return fromPlacement(err)
		}
		if held.ConsumerType == migrationType && (own.Project == "" || own.Project == held.Project) {
			return p.moving(server)
		}
	}
	return nil
}

// checkOnHost returns fault.Conflict if a server has nothing in the tree in which candidates were found: it is being
// moved from the host that its port is still bound to, or was moved to it without its ports.
func (p *plan) checkOnHost(port store.Port, found placement.Candidates) error {
	for id := range p.now[port.Device].Allocation {
		if _, there := found.Summaries[id]; there || len(found.List) == 0 {
			return nil
		}
	}
	return p.moving(port.Device)
}

func (p *plan) moving(server string) error {
	return conflict(serverMoves, "the policy of a port of server %s cannot change now: the server is being moved; try "+
		"again when the move waits for its confirmation or has ended", server)
}
