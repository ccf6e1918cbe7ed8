package conductor

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// lease lasts until end is called.
type lease struct {
	lasts context.Context
	end   context.CancelFunc
}

func (l lease) Check() error {
	if l.lasts.Err() != nil {
		return fault.New(fault.Unavailable, "the lease has ended")
	}
	return nil
}

func (l lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(l.lasts, func() { cancel(l.Check()) })
	return bound, func() { cancel(nil) }
}

// slowPlacement does not answer before the context of the call ends.
type slowPlacement struct {
	Placement
	calls  atomic.Int32
	called chan struct{}
}

func (p *slowPlacement) Candidates(ctx context.Context, _ resource.Ask) (placement.Candidates, error) {
	p.calls.Add(1)
	close(p.called)
	<-ctx.Done()
	return placement.Candidates{}, fault.Wrap(fault.Unavailable, context.Cause(ctx))
}

// A call that runs when the lease ends is cancelled. Without the lease no step begins, and no host is forgotten.
func TestNoCallsWithoutTheLease(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	p := &slowPlacement{Placement: c.client(nil), called: make(chan struct{})}
	l, config := lease{}, quiet(t)
	l.lasts, l.end = context.WithCancel(t.Context())
	config.Lease = l
	conductor := New(c.store, p, config)
	go func() {
		<-p.called
		l.end()
	}()
	for range 2 {
		_, err := conductor.steps.perform(t.Context(), server("s"), lifecycle.Schedule)
		if !fault.Is(err, fault.Unavailable) || fault.TextOf(err) != "the lease has ended" {
			t.Errorf("%v", err)
		}
	}
	if n := p.calls.Load(); n != 1 {
		t.Errorf("Placement was called %d times", n)
	}
	if _, _, err := conductor.HostForget(t.Context(), "a"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a host was forgotten without the lease: %v", err)
	}
}
