package allocations

import (
	"context"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// OpenStack's Placement before 14.0.0 checks the capacity for a transferred allocation as for a new one. So it refuses
// a transfer on a provider whose capacity has become smaller than its use: a spent device for one-time use is fully
// reserved, and a ratio may have been lowered. Every Placement refuses it if max_unit has become smaller than the
// amount of the allocation. Then the transfer adds room in the same request (POST /reshaper), exactly as much as is in
// use, so that no other consumer can take it, and removes the room afterwards. If the process ends in between, the
// agent of the host restores the inventory when it next reconciles its providers.

// Put writes all allocations together, and again with added room if Placement refuses them for lack of
// room.
func (w Writer) Put(ctx context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation,
	moves resource.Allocation) error {
	err := w.PutAllocations(ctx, all)
	if !placement.Refused(err) || fault.Is(err, fault.Forbidden) {
		return err
	}
	return w.PutWithRoom(ctx, all, moves, nil, err)
}

// PutWithRoom writes all allocations with one reshape that adds room on the providers of moves, for what is in use
// there and for added. refusal is Placement's answer without room; it is returned if the providers have enough room.
func (w Writer) PutWithRoom(ctx context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation,
	moves, added resource.Allocation, refusal error) error {
	before, wide, unread := w.widenedInventories(ctx, moves, added)
	if unread != nil {
		return unread
	}
	if len(wide) == 0 {
		return refusal
	}
	if err := w.Reshape(ctx, placement.Reshape{Inventories: wide, Allocations: all}); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(wide)) {
		if err := w.restoreInventories(ctx, id, wide[id].Inventories, before[id].Inventories); err != nil {
			w.Log.Info("added room not removed from Placement, the agent of the host will remove it",
				"provider", id, "error", err)
		}
	}
	return nil
}

// widenedInventories returns the inventories of the providers of moves that have less room than is in use and added: as
// they are, and with exactly enough room.
func (w Writer) widenedInventories(ctx context.Context, moves, added resource.Allocation) (
	before, wide map[provider.ID]placement.InventorySet, err error) {
	before, wide = map[provider.ID]placement.InventorySet{}, map[provider.ID]placement.InventorySet{}
	for _, id := range slices.Sorted(maps.Keys(moves)) {
		stock, err := w.Inventories(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		used, err := w.Usages(ctx, id)
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
			before[id], wide[id] = stock, placement.InventorySet{Generation: stock.Generation, Inventories: next}
		}
	}
	return before, wide, nil
}

// restoreInventories sets the inventories of a provider to before, unless another client has changed them meanwhile.
func (w Writer) restoreInventories(ctx context.Context, id provider.ID,
	wide, before map[resource.Class]resource.Inventory) error {
	now, err := w.Inventories(ctx, id)
	if err != nil || !maps.Equal(now.Inventories, wide) {
		return err
	}
	_, err = w.PutInventories(ctx, id, now.Generation, before)
	return err
}
