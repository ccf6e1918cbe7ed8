package allocations

import (
	"context"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// MoveAllocations transfers the server's allocation to its migration, in one request, so that no other consumer can
// take the resources in between.
//
// If the migration has the source's allocation already, as with a record from a backup, the server's own allocation is
// that of a destination which the record does not have. It is deleted: as the migration's it would replace the
// allocation of a running guest.
func (w Writer) MoveAllocations(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	own, migration := resource.ConsumerID(s.ID), resource.ConsumerID(s.Move.Consumer)
	done, err := w.Transfer(ctx, s, own, migration, "MIGRATION", s.SourceMoved)
	if placement.Refused(err) {
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

// RestoreAllocations transfers the migration's allocation back to the server. Temporary errors are retried, because the
// guest exists and has its devices. Refusals of Placement are retried a limited number of times (lifecycle.StepFailed).
// If another client has deleted the migration's allocation, nothing is transferred; the agent of the host reports what
// it finds.
func (w Writer) RestoreAllocations(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	from, to := resource.ConsumerID(s.Move.From.Consumer), resource.ConsumerID(s.ID)
	if _, err := w.Transfer(ctx, s, from, to, "INSTANCE", nil); err != nil {
		return nil, err
	}
	return lifecycle.AllocationsRestored{}, nil
}

// Transfer moves the whole allocation of one consumer to another, and sets the consumer type of the second. done is
// false if neither has an allocation. It reads both first: after a crash or a lost answer the transfer may be done
// already. If before is not nil and returns true for both allocations, the transfer was done before the first consumer
// got another allocation, which is deleted.
func (w Writer) Transfer(ctx context.Context, s lifecycle.Server, from, to resource.ConsumerID, kind string,
	before func(source, target resource.Allocation) bool) (done bool, err error) {
	err = w.Retry(ctx, func(int) error {
		source, err := w.Allocation(ctx, from)
		if err != nil {
			return err
		}
		target, err := w.Allocation(ctx, to)
		if err != nil {
			return err
		}
		if len(source.Allocation) == 0 {
			done = len(target.Allocation) > 0
			return nil
		}
		done = true
		if before != nil && before(source.Allocation, target.Allocation) {
			w.Log.Warn("allocations transferred before (database restored?)", "server", s.ID, "from", from, "to", to)
			return w.DeleteAllocation(ctx, from)
		}
		target.Allocation, target.Project, target.User, target.ConsumerType = source.Allocation, s.Project, s.User, kind
		source.Allocation = resource.Allocation{}
		all := map[resource.ConsumerID]placement.ConsumerAllocation{from: source, to: target}
		return w.Put(ctx, all, target.Allocation)
	})
	return done && err == nil, err
}
