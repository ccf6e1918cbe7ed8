package conductor

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement grants what changes hands like something new. So it refuses what stands where there is no room any more for what is held: a
// device for one-time use that is spent is reserved whole under its holder, and a ratio may have been lowered. Then the hand-over makes room
// in the same step (POST /reshaper), exactly as much as is held, so that at no moment anybody else could take it; and takes the room away again
// at once. Should the process end between the two, the agent of the host takes it away with its next look, as the total is its own to say.

// refused reports whether Placement has said no, and would say so again.
func refused(err error) bool {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NoCapacity, fault.Invalid, fault.NotFound, fault.Forbidden:
		return fault.CodeOf(err) != placement.CodeConcurrentUpdate
	}
	return false
}

// give writes what changes hands: as it is, or, where Placement refuses that for want of room, with room.
func (c *Conductor) give(ctx context.Context, all map[resource.ConsumerID]placement.Held, moves resource.Allocation) error {
	err := c.placement.PutAllocations(ctx, all)
	if !refused(err) || fault.Is(err, fault.Forbidden) {
		return err
	}
	return c.giveWithRoom(ctx, all, moves, nil, err)
}

// giveWithRoom writes all allocations with one reshape that makes room on the providers of moves, for what is in use
// there and for added. refusal is Placement's answer without room; it is returned if room is not what was missing.
func (c *Conductor) giveWithRoom(ctx context.Context, all map[resource.ConsumerID]placement.Held,
	moves, added resource.Allocation, refusal error) error {
	before, wide, unread := c.widen(ctx, moves, added)
	if unread != nil {
		return unread
	}
	if len(wide) == 0 {
		return refusal
	}
	if err := c.placement.Reshape(ctx, placement.Reshape{Inventories: wide, Allocations: all}); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(wide)) {
		if err := c.narrow(ctx, id, wide[id].Inventories, before[id].Inventories); err != nil {
			c.Log.Info("room that was made in Placement for a move stays until the agent of the host looks", "provider", id, "error", err)
		}
	}
	return nil
}

// widen returns the providers of moves that have less room than is in use and added, as they are and with just enough
// room.
func (c *Conductor) widen(ctx context.Context, moves, added resource.Allocation) (
	before, wide map[provider.ID]placement.Stock, err error) {
	before, wide = map[provider.ID]placement.Stock{}, map[provider.ID]placement.Stock{}
	for _, id := range slices.Sorted(maps.Keys(moves)) {
		stock, err := c.placement.Inventories(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		used, err := c.placement.Usages(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		next := maps.Clone(stock.Inventories)
		for class, amount := range moves[id] {
			if inv, has := next[class]; has {
				next[class] = inv.Widened(used[class]+added[id][class], amount)
			}
		}
		if !maps.Equal(next, stock.Inventories) {
			before[id], wide[id] = stock, placement.Stock{Generation: stock.Generation, Inventories: next}
		}
	}
	return before, wide, nil
}

// narrow takes the room away again, unless somebody has been there meanwhile.
func (c *Conductor) narrow(ctx context.Context, id provider.ID, wide, before map[resource.Class]resource.Inventory) error {
	now, err := c.placement.Inventories(ctx, id)
	if err != nil || !maps.Equal(now.Inventories, wide) {
		return err
	}
	_, err = c.placement.PutInventories(ctx, id, now.Generation, before)
	return err
}
