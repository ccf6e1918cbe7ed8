package conductor

import (
	"context"
	"sync"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
)

// trouble counts the calls of a conductor, and decides for each whether it fails before or after its effect.
type trouble struct {
	mu    sync.Mutex
	calls int
	fails func(call int, late bool) error
	over  bool
}

// rest ends the faults and the counting.
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
			return fault.New(fault.Unavailable, "the service does not answer")
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
		return fault.New(fault.Unavailable, "the process has ended")
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

// failPlacement counts the calls to Placement and fails them. It leaves out those of audits, which run at any time.
func (t *trouble) failPlacement(call placementtest.Call) (before, after error) {
	if call.Op == "ProviderAllocations" || call.Op == "TreeAllocations" {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, nil
	}
	t.calls++
	if before = t.fails(t.calls, false); before != nil {
		return before, nil
	}
	return nil, t.fails(t.calls, true)
}

// failFunc injects faults into the calls of a conductor to Placement, as placementtest.Placement.Fail does.
type failFunc func(placementtest.Call) (before, after error)

// callErrors returns the errors errs before the first calls of a method. Later calls succeed.
type callErrors struct {
	op   string
	errs []error

	mu    sync.Mutex
	calls int // of the method
}

func (e *callErrors) fail(call placementtest.Call) (before, after error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if call.Op != e.op {
		return nil, nil
	}
	if e.calls++; e.calls <= len(e.errs) {
		return e.errs[e.calls-1], nil
	}
	return nil, nil
}

func (e *callErrors) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// concurrent returns a conflict that the caller must try again.
func concurrent() error {
	return fault.New(fault.Conflict, "another generation").WithCode(placement.CodeConcurrentUpdate)
}
