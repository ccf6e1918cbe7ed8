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
//
// If the migration has the source's allocation already, as with a record from a backup, the server's own allocation is
// that of a destination which the record does not have. It is deleted: as the migration's it would replace the
// allocation of a running guest.
func (d *dependencies) moveAllocations(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	own, migration := resource.ConsumerID(s.ID), resource.ConsumerID(s.Move.Consumer)
	done, err := d.transfer(ctx, s, own, migration, "MIGRATION", s.SourceMoved)
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
	if _, err := d.transfer(ctx, s, from, to, "INSTANCE", never); err != nil {
		return nil, err
	}
	return lifecycle.AllocationsRestored{}, nil
}

// never is the condition of a transfer that replaces whatever the second consumer has.
func never(_, _ resource.Allocation) bool { return false }

// transfer moves the whole allocation of one consumer to another, and sets the consumer type of the second. done is
// false if neither has an allocation. It reads both first: after a crash or a lost answer the transfer may be done
// already. If before returns true for both allocations, the transfer was done before the first consumer got another
// allocation, which is deleted.
func (d *dependencies) transfer(ctx context.Context, s lifecycle.Server, from, to resource.ConsumerID, kind string,
	before func(source, target resource.Allocation) bool) (done bool, err error) {
	for attempt := range claimTries {
		if attempt > 0 {
			d.Pause(ctx, attempt)
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
		if before(source.Allocation, target.Allocation) {
			d.Log.Warn("allocations transferred before (database restored?)", "server", s.ID, "from", from, "to", to)
			return true, d.placement.DeleteAllocation(ctx, from)
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
