package conductor

import (
	"context"
	"fmt"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// moveAllocations transfers the server's allocation to its migration, in one request, so that no other consumer can
// take the resources in between.
func (c *Conductor) moveAllocations(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	done, err := c.transfer(ctx, s, resource.ConsumerID(s.ID), resource.ConsumerID(s.Move.Consumer), "MIGRATION")
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
func (c *Conductor) restoreAllocations(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	from, to := resource.ConsumerID(s.Move.From.Consumer), resource.ConsumerID(s.ID)
	if _, err := c.transfer(ctx, s, from, to, "INSTANCE"); err != nil {
		return nil, err
	}
	return lifecycle.AllocationsRestored{}, nil
}

// transfer moves the whole allocation of one consumer to another, and sets the consumer type of the second. done is
// false if neither has an allocation. It reads both first: after a crash or a lost answer the transfer may be done
// already.
func (c *Conductor) transfer(ctx context.Context, s lifecycle.Server, from, to resource.ConsumerID, kind string) (
	done bool, err error) {
	for attempt := range claimTries {
		if attempt > 0 {
			c.pause(ctx, attempt)
		}
		var source, target placement.ConsumerAllocation
		if source, err = c.placement.Allocation(ctx, from); err != nil {
			return false, err
		}
		if target, err = c.placement.Allocation(ctx, to); err != nil {
			return false, err
		}
		if len(source.Allocation) == 0 {
			return len(target.Allocation) > 0, nil
		}
		target.Allocation, target.Project, target.User, target.ConsumerType = source.Allocation, s.Project, s.User, kind
		source.Allocation = resource.Allocation{}
		all := map[resource.ConsumerID]placement.ConsumerAllocation{from: source, to: target}
		err = c.putTransferred(ctx, all, target.Allocation)
		if err == nil {
			return true, nil
		}
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			return false, err
		}
	}
	return false, err
}

// releaseLeftover deletes the allocation of the next leftover, whose guest no longer exists.
func (c *Conductor) releaseLeftover(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	left, _ := s.NextLeftover()
	if err := c.placement.DeleteAllocation(ctx, resource.ConsumerID(left.Consumer)); err != nil {
		return nil, err
	}
	return lifecycle.LeftoverReleased{Consumer: left.Consumer}, nil
}

// reservationChars is the length of the prefix that the ids of all servers of one request share: the first 48 bits of
// the UUID.
const reservationChars = 13

// checkMinCount counts the servers of the request that have an allocation. Once there are min_count of them, all of
// them continue; if fewer can get one, all of them fail.
func (c *Conductor) checkMinCount(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	all, err := c.store.ByReservation(ctx, s.ID[:min(len(s.ID), reservationChars)])
	if err != nil {
		return nil, err
	}
	placed, trying := 0, 0
	for _, other := range all {
		switch other.State {
		case lifecycle.Preparing, lifecycle.Scheduling, lifecycle.Claiming, lifecycle.Rescheduling:
			trying++
		case lifecycle.AwaitingMinCount:
			placed++
		}
	}
	switch {
	case placed >= s.MinCount || slices.ContainsFunc(all, func(o lifecycle.Server) bool { return o.MinCountReached }):
		c.wake(all, s.ID)
		return lifecycle.MinCountReached{}, nil
	case placed+trying < s.MinCount:
		c.wake(all, s.ID)
		return lifecycle.MinCountFailed{Reason: fmt.Sprintf(
			"the request needs at least %d servers, and there is room for %d", s.MinCount, placed+trying)}, nil
	}
	return nil, fault.New(fault.Unavailable, "conductor.checkMinCount",
		"%d of the %d servers that the request needs have room; %d more are being scheduled", placed, s.MinCount, trying)
}

// wake queues the servers that await min_count, except one.
func (c *Conductor) wake(all []lifecycle.Server, except string) {
	for _, s := range all {
		if s.State == lifecycle.AwaitingMinCount && s.ID != except {
			c.runner.Wake(s.ID)
		}
	}
}
