// Package allocations writes the allocations of consumers in Placement. It repeats a write while other clients change
// the same allocation, and adds room for what a consumer has already if Placement refuses it for lack of room.
//
// The files, from the bottom to the top: update.go, added_room.go, transfer.go.
package allocations

import (
	"context"
	"log/slog"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement is what a Writer needs of a Placement service; *placement.Client implements it.
type Placement interface {
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
	PutAllocation(ctx context.Context, consumer resource.ConsumerID, held placement.ConsumerAllocation) error
	PutAllocations(ctx context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation) error
	DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error
	Reshape(ctx context.Context, r placement.Reshape) error
	Inventories(ctx context.Context, id provider.ID) (placement.InventorySet, error)
	PutInventories(ctx context.Context, id provider.ID, generation int,
		inv map[resource.Class]resource.Inventory) (int, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
}

// Writer writes allocations.
type Writer struct {
	Placement

	Pause func(ctx context.Context, attempt int) // before a write is repeated
	Log   *slog.Logger
}

// tries is how often a write is tried because other clients change the allocation.
const tries = 5

// Retry calls write until it returns no error because of another client's change, at most tries times. It returns the
// last error. It counts the attempts from 0.
func (w Writer) Retry(ctx context.Context, write func(attempt int) error) (err error) {
	for attempt := range tries {
		if attempt > 0 {
			w.Pause(ctx, attempt)
		}
		if err = write(attempt); !Changed(err) {
			return err
		}
	}
	return err
}

// Changed reports whether Placement has refused a write because another client has changed the allocation or the tree
// of its providers since they were read.
func Changed(err error) bool {
	code := fault.CodeOf(err)
	return code == placement.CodeConcurrentUpdate || code == placement.CodeTreeChanged
}

// Update passes the allocation of a consumer to write, which writes what it must be. It repeats both with Retry.
func (w Writer) Update(ctx context.Context, consumer resource.ConsumerID,
	write func(held placement.ConsumerAllocation) error) error {
	return w.Retry(ctx, func(int) error {
		held, err := w.Allocation(ctx, consumer)
		if err != nil {
			return err
		}
		return write(held)
	})
}
