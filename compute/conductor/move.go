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

// rekey makes what the server holds its migration's, in one step: at no moment could somebody else take it.
func (c *Conductor) rekey(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	done, err := c.hand(ctx, s, resource.ConsumerID(s.ID), resource.ConsumerID(s.Move.Consumer), "MIGRATION")
	if refused(err) {
		return lifecycle.Refused{Step: lifecycle.MoveAllocations, Reason: "Placement does not let the migration hold what the server holds: " + fault.TextOf(err)}, nil
	}
	if err != nil {
		return nil, err
	}
	if !done {
		return lifecycle.Refused{Step: lifecycle.MoveAllocations, Reason: "the server holds nothing in Placement"}, nil
	}
	return lifecycle.AllocationsMoved{}, nil
}

// restore is the way back. What is in the way for a moment is waited for: the guest is there and holds its devices. What Placement refuses is
// tried again too, but not for ever (lifecycle.Stumbled). Where somebody has taken everything from the migration, nothing is left to be
// handed over; the agent of the host will report what it finds.
func (c *Conductor) restore(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	if _, err := c.hand(ctx, s, resource.ConsumerID(s.Move.From.Consumer), resource.ConsumerID(s.ID), "INSTANCE"); err != nil {
		return nil, err
	}
	return lifecycle.AllocationsRestored{}, nil
}

// hand gives all that one consumer holds to another. done is false when neither holds anything. It looks first: after a crash, or
// an answer that was lost, it may be done already.
func (c *Conductor) hand(ctx context.Context, s lifecycle.Server, from, to resource.ConsumerID, kind string) (done bool, err error) {
	for attempt := range claimTries {
		if attempt > 0 {
			c.pause(ctx, attempt)
		}
		var giver, taker placement.Held
		if giver, err = c.placement.Allocation(ctx, from); err != nil {
			return false, err
		}
		if taker, err = c.placement.Allocation(ctx, to); err != nil {
			return false, err
		}
		if len(giver.Allocation) == 0 {
			return len(taker.Allocation) > 0, nil
		}
		taker.Allocation, taker.Project, taker.User, taker.ConsumerType = giver.Allocation, s.Project, s.User, kind
		giver.Allocation = resource.Allocation{}
		err = c.give(ctx, map[resource.ConsumerID]placement.Held{from: giver, to: taker}, taker.Allocation)
		if err == nil {
			return true, nil
		}
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			return false, err
		}
	}
	return false, err
}

// drop gives back what was left behind on a host and is gone there.
func (c *Conductor) drop(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	left, _ := s.NextLeftover()
	if err := c.placement.DeleteAllocation(ctx, resource.ConsumerID(left.Consumer)); err != nil {
		return nil, err
	}
	return lifecycle.LeftoverReleased{Consumer: left.Consumer}, nil
}

// kin is how many characters of the ids of servers of one request are alike: the UUID's first 48 bits.
const kin = 13

// muster looks how the other servers of the request fare. Once enough have a place, all that have one go on; when too few can get
// one, none does.
func (c *Conductor) muster(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	all, err := c.store.ByReservation(ctx, s.ID[:min(len(s.ID), kin)])
	if err != nil {
		return nil, err
	}
	placed, trying := 0, 0
	for _, other := range all {
		switch other.State {
		case lifecycle.Scheduling, lifecycle.Claiming, lifecycle.Rescheduling:
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
		return lifecycle.MinCountFailed{Reason: fmt.Sprintf("%d servers of its request are to be built together, and there is a place for %d", s.MinCount, placed+trying)}, nil
	}
	return nil, fault.New(fault.Unavailable, "conductor.muster", "%d of the %d servers that are to be built together have a place, %d more are looked after", placed, s.MinCount, trying)
}

// wake has the others look again.
func (c *Conductor) wake(all []lifecycle.Server, but string) {
	for _, s := range all {
		if s.State == lifecycle.AwaitingMinCount && s.ID != but {
			c.runner.Wake(s.ID)
		}
	}
}
