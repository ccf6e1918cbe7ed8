package conductor

import (
	"context"
	"sync"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// trouble stands between a compute and what it calls, and decides for each call whether it fails before or after its
// effect.
type trouble struct {
	mu    sync.Mutex
	calls int
	fails func(call int, late bool) error
	over  bool
}

// rest ends the trouble, and the counting.
func (t *trouble) rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *trouble) call(effect func() error) error {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return effect()
	}
	t.calls++
	n := t.calls
	err := t.fails(n, false)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil
	}
	return t.fails(n, true)
}

func (t *trouble) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls
}

// once fails one call.
func once(at int, late bool) func(int, bool) error {
	return func(n int, after bool) error {
		if n == at && after == late {
			return fault.New(fault.Unavailable, "", "the service does not answer")
		}
		return nil
	}
}

// crash ends the compute at one call: nothing that it tries afterwards has an effect.
func crash(at int, late bool, end func()) func(int, bool) error {
	return func(n int, after bool) error {
		if n < at || n == at && late && !after {
			return nil
		}
		end()
		return fault.New(fault.Unavailable, "", "the process has ended")
	}
}

// troubledStore counts what the compute writes.
type troubledStore struct {
	Store
	*trouble
}

func (s troubledStore) Create(ctx context.Context, servers ...lifecycle.Server) error {
	return s.call(func() error { return s.Store.Create(ctx, servers...) })
}

func (s troubledStore) Change(ctx context.Context, id string,
	next func(lifecycle.Server) lifecycle.Server) (server lifecycle.Server, err error) {
	err = s.call(func() error {
		// Cancelled contexts must not decide what was written: the call decides.
		server, err = s.Store.Change(context.WithoutCancel(ctx), id, next)
		return err
	})
	return server, err
}

// troubledPlacement counts every call.
type troubledPlacement struct {
	Placement
	*trouble
}

func (p troubledPlacement) Candidates(ctx context.Context, ask resource.Ask) (got placement.Candidates, err error) {
	err = p.call(func() error { got, err = p.Placement.Candidates(ctx, ask); return err })
	return got, err
}

func (p troubledPlacement) Allocation(ctx context.Context,
	id resource.ConsumerID) (held placement.ConsumerAllocation, err error) {
	err = p.call(func() error { held, err = p.Placement.Allocation(ctx, id); return err })
	return held, err
}

func (p troubledPlacement) PutAllocation(ctx context.Context, id resource.ConsumerID,
	held placement.ConsumerAllocation) error {
	return p.call(func() error { return p.Placement.PutAllocation(ctx, id, held) })
}

func (p troubledPlacement) DeleteAllocation(ctx context.Context, id resource.ConsumerID) error {
	return p.call(func() error { return p.Placement.DeleteAllocation(ctx, id) })
}

func (p troubledPlacement) Inventories(ctx context.Context, id provider.ID) (stock placement.InventorySet, err error) {
	err = p.call(func() error { stock, err = p.Placement.Inventories(ctx, id); return err })
	return stock, err
}

func (p troubledPlacement) Usages(ctx context.Context, id provider.ID) (used resource.Amounts, err error) {
	err = p.call(func() error { used, err = p.Placement.Usages(ctx, id); return err })
	return used, err
}

func (p troubledPlacement) Reshape(ctx context.Context, r placement.Reshape) error {
	return p.call(func() error { return p.Placement.Reshape(ctx, r) })
}

func (p troubledPlacement) PutInventories(ctx context.Context, id provider.ID, g int,
	all map[resource.Class]resource.Inventory) (n int, err error) {
	err = p.call(func() error { n, err = p.Placement.PutInventories(ctx, id, g, all); return err })
	return n, err
}

func (p troubledPlacement) PutAllocations(ctx context.Context,
	all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	return p.call(func() error { return p.Placement.PutAllocations(ctx, all) })
}
