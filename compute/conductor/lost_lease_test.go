package conductor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
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

// slowUpdates is a network service that answers to no update before the context of the call ends.
type slowUpdates struct {
	*fakePorts
	called func()
}

func (n slowUpdates) UpdatePort(ctx context.Context, _ string, _ map[string]any) (network.Port, error) {
	n.called()
	select {
	case <-ctx.Done():
		return network.Port{}, fault.Wrap(fault.Unavailable, context.Cause(ctx))
	case <-time.After(5 * time.Second):
		return network.Port{}, fault.New(fault.Internal, "the call has not ended with the lease")
	}
}

// The healing of ports ends with the lease.
func TestHealingEndsWithTheLease(t *testing.T) {
	c := newNICCloud(t, nil)
	l := lease{}
	l.lasts, l.end = context.WithCancel(t.Context())
	c.conductor.Lease = l
	c.network.ports = []network.Port{{ID: "p", Device: "web", ActiveBinding: network.ActiveBinding{Host: "a",
		VNIC: "direct", Profile: map[string]any{"pci_slot": slot2}}, Request: &network.ResourceRequest{
		Groups: []network.RequestGroup{{ID: "bw", Resources: resource.Amounts{bandwidth.EgressBandwidth: 6000}}}}}}
	c.uses(slowUpdates{c.network, l.end})
	if got := c.heal(); !strings.Contains(got.Reason, "the lease has ended") {
		t.Errorf("%+v", got)
	}
}
