package conductor

import (
	"context"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// claimTries is how often a write is retried because a generation has changed.
const claimTries = 5

// moveAllocations transfers the server's allocation to its migration, in one request, so that no other consumer can
// take the resources in between.
func (d *dependencies) moveAllocations(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	done, err := d.transfer(ctx, s, resource.ConsumerID(s.ID), resource.ConsumerID(s.Move.Consumer), "MIGRATION")
	if refused(err) {
		return lifecycle.Refused{Step: lifecycle.MoveAllocations,
			Reason: "Placement refuses to transfer the server's allocation to its migration: " + fault.TextOf(err)}, nil
	}
	if err != nil {
		return nil, err
	}
	if !done {
		return lifecycle.Refused{Step: lifecycle.MoveAllocations, Reason: "the server has no allocation in Placement"}, nil
	}
	return lifecycle.AllocationsMoved{}, nil
}

// restoreAllocations transfers the migration's allocation back to the server. Temporary errors are retried, because the
// guest exists and has its devices. Refusals of Placement are retried a limited number of times (lifecycle.StepFailed).
// If another client has deleted the migration's allocation, nothing is transferred; the agent of the host reports what
// it finds.
func (d *dependencies) restoreAllocations(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	from, to := resource.ConsumerID(s.Move.From.Consumer), resource.ConsumerID(s.ID)
	if _, err := d.transfer(ctx, s, from, to, "INSTANCE"); err != nil {
		return nil, err
	}
	return lifecycle.AllocationsRestored{}, nil
}

// transfer moves the whole allocation of one consumer to another, and sets the consumer type of the second. done is
// false if neither has an allocation. It reads both first: after a crash or a lost answer the transfer may be done
// already.
func (d *dependencies) transfer(ctx context.Context, s lifecycle.Server, from, to resource.ConsumerID, kind string) (
	done bool, err error) {
	for attempt := range claimTries {
		if attempt > 0 {
			d.pause(ctx, attempt)
		}
		var source, target placement.ConsumerAllocation
		if source, err = d.placement.Allocation(ctx, from); err != nil {
			return false, err
		}
		if target, err = d.placement.Allocation(ctx, to); err != nil {
			return false, err
		}
		if len(source.Allocation) == 0 {
			return len(target.Allocation) > 0, nil
		}
		target.Allocation, target.Project, target.User, target.ConsumerType = source.Allocation, s.Project, s.User, kind
		source.Allocation = resource.Allocation{}
		all := map[resource.ConsumerID]placement.ConsumerAllocation{from: source, to: target}
		err = d.putTransferred(ctx, all, target.Allocation)
		if err == nil {
			return true, nil
		}
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			return false, err
		}
	}
	return false, err
}
