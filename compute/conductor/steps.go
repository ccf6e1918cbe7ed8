package conductor

import (
	"context"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// performer performs the steps of servers, each with the lease and after the checks that it needs.
type performer struct {
	*dependencies

	build func(s lifecycle.Server) (lifecycle.Prepared, error) // builds the request to Placement
	wake  func(id string)                                      // queues a server whose step may be performed now
}

// prepare builds the request to Placement. The Compute API has accepted the flavor and the image, but the
// configuration of the aliases may have changed since.
func (p *performer) prepare(s lifecycle.Server) lifecycle.Event {
	prepared, err := p.build(s)
	if err != nil {
		return lifecycle.Refused{Step: lifecycle.Prepare, Reason: fault.TextOf(err)}
	}
	return prepared
}

// schedule prepares the ports of the server, and then chooses hosts for it.
func (p *performer) schedule(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	all, refusal, err := p.Ports.Prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	if refusal != "" {
		return lifecycle.Refused{Step: lifecycle.Schedule, Reason: refusal}, nil
	}
	return p.Scheduler.Choose(ctx, s, all)
}

// perform performs one step and returns its event. If it returns an error the step is retried later.
func (p *performer) perform(ctx context.Context, s lifecycle.Server, step lifecycle.Step) (lifecycle.Event, error) {
	switch step {
	case lifecycle.Prepare, lifecycle.Schedule, lifecycle.CheckMinCount:
	default:
		if err := p.checkMayWrite(ctx, s); err != nil {
			return nil, err
		}
	}
	ctx, stop, err := p.leased(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	began := time.Now()
	event, err := p.step(ctx, s, step)
	if p.Metrics != nil {
		p.Metrics.Step(step, time.Since(began), event, err)
	}
	// these do not call Placement
	if !slices.Contains([]lifecycle.Step{lifecycle.Prepare, lifecycle.CheckMinCount, lifecycle.BindPorts,
		lifecycle.CreateImage, lifecycle.CheckImage, lifecycle.DeleteImage}, step) {
		p.Audits.NoteUnavailable(err)
	}
	return event, err
}

// step performs one step; the caller has the lease.
func (p *performer) step(ctx context.Context, s lifecycle.Server, step lifecycle.Step) (lifecycle.Event, error) {
	if step == lifecycle.Claim || step == lifecycle.Release {
		if err := p.protectOtherGuest(ctx, s); err != nil {
			return nil, err
		}
	}
	switch step {
	case lifecycle.Prepare:
		return p.prepare(s), nil
	case lifecycle.Schedule:
		return p.schedule(ctx, s)
	case lifecycle.Claim:
		return p.claim(ctx, s)
	case lifecycle.ChangePort:
		return p.Ports.Change(ctx, s)
	case lifecycle.BindPorts:
		return p.Ports.Bind(ctx, s)
	case lifecycle.CheckMinCount:
		return p.checkMinCount(ctx, s)
	case lifecycle.MoveAllocations:
		return p.writer.MoveAllocations(ctx, s)
	case lifecycle.RestoreAllocations:
		return p.writer.RestoreAllocations(ctx, s)
	case lifecycle.ReleaseLeftover:
		return p.releaseLeftover(ctx, s)
	case lifecycle.CreateImage:
		return p.createImage(ctx, s)
	case lifecycle.CheckImage:
		return p.checkImage(ctx, s)
	case lifecycle.DeleteImage:
		return p.deleteImage(ctx, s)
	case lifecycle.Release:
		return p.release(ctx, s)
	}
	return nil, fault.New(fault.Internal, "unknown step %q", step)
}

// checkMinCount decides whether the servers of a request continue, and wakes those that await the decision.
func (p *performer) checkMinCount(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	request, err := p.store.ByReservation(ctx, reservationPrefix(s.ID))
	if err != nil {
		return nil, err
	}
	event, err := decideMinCount(s, request)
	if err != nil {
		return nil, err
	}
	for _, other := range request {
		if other.State == lifecycle.AwaitingMinCount && other.ID != s.ID {
			p.wake(other.ID)
		}
	}
	return event, nil
}
