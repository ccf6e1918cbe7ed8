package sim

import (
	"context"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/resource"
)

// brokenPlacement returns the client of the conductor, or a wrapper of it that is broken on purpose.
func (pm *placementModel) brokenPlacement(client *placementtest.Placement) conductor.Placement {
	switch pm.broken {
	case Lenient:
		return lenientPlacement{client}
	case Orphans:
		return keepingPlacement{client}
	}
	return client
}

// lenientPlacement accepts claims for which there is no room.
type lenientPlacement struct{ *placementtest.Placement }

// PutAllocation replaces the allocation of a consumer.
func (p lenientPlacement) PutAllocation(ctx context.Context, c resource.ConsumerID,
	held placement.ConsumerAllocation) error {
	err := p.Placement.PutAllocation(ctx, c, held)
	if fault.CodeOf(err) == placement.CodeUndefined {
		p.SetAllocation(c, held.Allocation)
		return nil
	}
	return err
}

// keepingPlacement deletes no allocation.
type keepingPlacement struct{ *placementtest.Placement }

// DeleteAllocation does nothing.
func (keepingPlacement) DeleteAllocation(context.Context, resource.ConsumerID) error { return nil }
