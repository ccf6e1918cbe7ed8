package conductor

import (
	"context"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// claim writes the first choice as the server's allocation. The first attempt assumes that the server has none;
// otherwise Placement refuses it, because of the generation. Then claim reads the allocation: after a crash or a lost
// answer the claim may exist already. Any other allocation of the server comes from an earlier claim and is replaced.
func (p *performer) claim(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	choice, consumer := s.Choices[0], resource.ConsumerID(s.ID)
	var held placement.ConsumerAllocation
	err := p.writer.Retry(ctx, func(attempt int) (err error) {
		if attempt > 0 || s.Try > 1 || s.Move != nil {
			if held, err = p.placement.Allocation(ctx, consumer); err != nil {
				return err
			}
		}
		if len(held.Allocation) > 0 && held.Allocation.Equal(choice.Allocation) {
			return nil
		}
		return p.claimChoice(ctx, choice, consumer, placement.ConsumerAllocation{
			Allocation: choice.Allocation, Mappings: choice.Mappings, Generation: held.Generation,
			Project: s.Project, User: s.User, ConsumerType: "INSTANCE",
		})
	})
	if err == nil {
		return lifecycle.Claimed{Try: s.Try}, nil
	}
	// lifecycle.ClaimLost states that the server has no allocation. One of which the answer was lost is not known
	// before Placement is asked.
	if len(held.Allocation) > 0 || fault.CodeOf(err) == notAsked {
		if err := p.placement.DeleteAllocation(ctx, consumer); err != nil {
			return nil, err
		}
	}
	return claimFailed(s, err)
}

// notAsked is the code of the fault if a claim was given up before Placement was asked for it.
const notAsked = "NotAsked"

// claimChoice writes the allocation of a choice, unless allocations of servers are missing on its host: then what
// Placement offers there may be in use, and the fault is Conflict with the code notAsked. It audits the host first. If
// Placement reports the states of trees, the claim names the state at the last audit instead, and the host is audited
// only if that state is out of date.
func (p *performer) claimChoice(ctx context.Context, choice schedule.Choice, consumer resource.ConsumerID,
	claim placement.ConsumerAllocation) error {
	claim.Tree, claim.TreeState = choice.Root, p.Audits.TreeState(choice.Host, choice.Root)
	if claim.TreeState != "" {
		err := p.placement.PutAllocation(ctx, consumer, claim)
		if fault.CodeOf(err) != placement.CodeTreeChanged {
			return err
		}
	}
	missing, err := p.Audits.AuditRoot(ctx, choice.Host, choice.Root)
	if err != nil {
		return err
	}
	if missing {
		return fault.New(fault.Conflict, "on host %s, %s", choice.Host, schedule.LacksAllocations).WithCode(notAsked)
	}
	claim.TreeState = p.Audits.TreeState(choice.Host, choice.Root)
	return p.placement.PutAllocation(ctx, consumer, claim)
}

func claimFailed(s lifecycle.Server, err error) (lifecycle.Event, error) {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.Internal: // an answer with status 500 may be another one later
		return nil, err
	case fault.Conflict, fault.NoCapacity, fault.Invalid, fault.NotFound: // taken, or the provider has been deleted
		return lifecycle.ClaimLost{Try: s.Try, Reason: fault.TextOf(err)}, nil
	}
	return lifecycle.Refused{Step: lifecycle.Claim, Reason: "Placement refuses the claim: " + fault.TextOf(err)}, nil
}

// release unbinds the ports of the server and deletes its allocation. Every error is returned, so that the step is
// retried until it succeeds.
func (p *performer) release(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	if err := p.Ports.Release(ctx, s); err != nil {
		return nil, err
	}
	if err := p.placement.DeleteAllocation(ctx, resource.ConsumerID(s.ID)); err != nil {
		return nil, err
	}
	return lifecycle.Released{}, nil
}

// releaseLeftover deletes the allocation of the next leftover, whose guest no longer exists.
func (p *performer) releaseLeftover(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	left, _ := s.NextLeftover()
	if err := p.placement.DeleteAllocation(ctx, resource.ConsumerID(left.Consumer)); err != nil {
		return nil, err
	}
	return lifecycle.LeftoverReleased{Consumer: left.Consumer}, nil
}
