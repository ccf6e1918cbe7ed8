package loop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// crash ends an agent at one of its external calls: before the call is made, or after it was made and before it
// returns. As each write to the journal is between two such calls, this also covers crashes around each write.
type crash struct {
	mu      sync.Mutex
	calls   int
	call    int // number of the call; 0: none
	after   bool
	delay   time.Duration // with after: time by which a guest report in progress arrives later
	crashed bool
	cancel  context.CancelFunc
}

// delays reports whether the present request arrives late: it is the last one of a crashing agent.
func (c *crash) delays() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashed && c.delay > 0
}

// intercept runs a call, or ends the agent before or after it.
func (c *crash) intercept(do func() error) error {
	c.mu.Lock()
	c.calls++
	now := c.call > 0 && c.calls == c.call
	if now {
		c.crashed = true
	}
	crashed, after := c.crashed, now && c.after
	c.mu.Unlock()
	if !crashed {
		return do()
	}
	if now {
		defer c.cancel()
	}
	if after {
		_ = do() // the call takes place, and its answer is lost
	}
	return fault.New(fault.Unavailable, "killed")
}

// interceptCall is intercept for calls that return a value.
func interceptCall[T any](c *crash, do func() (T, error)) (out T, err error) {
	err = c.intercept(func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}

type crashingPlacement struct {
	base  Placement
	crash *crash
}

func (m crashingPlacement) ProviderByName(ctx context.Context, name string) (provider.Provider, error) {
	return interceptCall(m.crash, func() (provider.Provider, error) { return m.base.ProviderByName(ctx, name) })
}

func (m crashingPlacement) Tree(ctx context.Context, id provider.ID) (provider.Tree, error) {
	return interceptCall(m.crash, func() (provider.Tree, error) { return m.base.Tree(ctx, id) })
}

func (m crashingPlacement) TreeAllocations(ctx context.Context, root provider.ID, whole bool) (
	placement.TreeAllocations, error) {
	return interceptCall(m.crash, func() (placement.TreeAllocations, error) {
		return m.base.TreeAllocations(ctx, root, whole)
	})
}

func (m crashingPlacement) ProviderAllocations(ctx context.Context,
	id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
	return interceptCall(m.crash, func() (map[resource.ConsumerID]resource.Amounts,
		error) {
		return m.base.ProviderAllocations(ctx, id)
	})
}

func (m crashingPlacement) Allocation(ctx context.Context,
	c resource.ConsumerID) (placement.ConsumerAllocation, error) {
	return interceptCall(m.crash, func() (placement.ConsumerAllocation, error) { return m.base.Allocation(ctx, c) })
}

func (m crashingPlacement) EnsureClass(ctx context.Context, c resource.Class) error {
	return m.crash.intercept(func() error { return m.base.EnsureClass(ctx, c) })
}

func (m crashingPlacement) EnsureTrait(ctx context.Context, t resource.Trait) error {
	return m.crash.intercept(func() error { return m.base.EnsureTrait(ctx, t) })
}

func (m crashingPlacement) CreateProvider(ctx context.Context, id provider.ID, name string,
	parent provider.ID) (provider.Provider, error) {
	return interceptCall(m.crash, func() (provider.Provider, error) {
		return m.base.CreateProvider(ctx, id, name,
			parent)
	})
}

func (m crashingPlacement) PutProvider(ctx context.Context, id provider.ID, name string,
	parent provider.ID) (provider.Provider, error) {
	return interceptCall(m.crash, func() (provider.Provider, error) { return m.base.PutProvider(ctx, id, name, parent) })
}

func (m crashingPlacement) DeleteProvider(ctx context.Context, id provider.ID) error {
	return m.crash.intercept(func() error { return m.base.DeleteProvider(ctx, id) })
}

func (m crashingPlacement) PutInventories(ctx context.Context, id provider.ID, g int,
	i map[resource.Class]resource.Inventory) (int, error) {
	return interceptCall(m.crash, func() (int, error) { return m.base.PutInventories(ctx, id, g, i) })
}

func (m crashingPlacement) PutTraits(ctx context.Context, id provider.ID, g int, t []resource.Trait) (int, error) {
	return interceptCall(m.crash, func() (int, error) { return m.base.PutTraits(ctx, id, g, t) })
}

func (m crashingPlacement) Reshape(ctx context.Context, r placement.Reshape) error {
	return m.crash.intercept(func() error { return m.base.Reshape(ctx, r) })
}

type crashingHypervisor struct {
	base  hypervisor.Hypervisor
	crash *crash
}

func (m crashingHypervisor) Check(ctx context.Context) error { return m.base.Check(ctx) }

func (m crashingHypervisor) Capacity(ctx context.Context) (hypervisor.Capacity, error) {
	return interceptCall(m.crash, func() (hypervisor.Capacity, error) { return m.base.Capacity(ctx) })
}

func (m crashingHypervisor) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	return interceptCall(m.crash, func() ([]hypervisor.Guest, error) { return m.base.Guests(ctx) })
}

func (m crashingHypervisor) Build(ctx context.Context, g hypervisor.Guest) error {
	return m.crash.intercept(func() error { return m.base.Build(ctx, g) })
}

func (m crashingHypervisor) Destroy(ctx context.Context, id string) error {
	return m.crash.intercept(func() error { return m.base.Destroy(ctx, id) })
}

func (m crashingHypervisor) Rename(ctx context.Context, was, id, server string) error {
	return m.crash.intercept(func() error { return m.base.Rename(ctx, was, id, server) })
}

func (m crashingHypervisor) Migrate(ctx context.Context, id string, to hypervisor.Destination) error {
	return m.crash.intercept(func() error { return m.base.Migrate(ctx, id, to) })
}

type crashingDataPlane struct {
	base  DataPlane
	crash *crash
}

func (m crashingDataPlane) Configure(ctx context.Context, vfs []vfconfig.Assigned) error {
	return m.crash.intercept(func() error { return m.base.Configure(ctx, vfs) })
}

func (m crashingDataPlane) Reset(ctx context.Context, devices []device.ID) error {
	return m.crash.intercept(func() error { return m.base.Reset(ctx, devices) })
}

func (m crashingDataPlane) Compare(ctx context.Context, assigned func() []vfconfig.Assigned) []condition.Condition {
	return m.base.Compare(ctx, assigned)
}

type crashingVFs struct {
	base  VFSetter
	crash *crash
}

func (m crashingVFs) SetVFs(pf pci.Address, count int) error {
	return m.crash.intercept(func() error { return m.base.SetVFs(pf, count) })
}

type crashingTransport struct {
	base  http.RoundTripper
	crash *crash
}

func (m crashingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := interceptCall(m.crash, func() (*http.Response, error) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/guests/") && m.crash.delays() {
			return nil, m.delay(r)
		}
		return m.base.RoundTrip(r)
	})
	if err != nil {
		if resp != nil {
			resp.Body.Close()
		}
		return nil, err
	}
	return resp, nil
}

// delay lets a request arrive later; its response is discarded.
func (m crashingTransport) delay(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	time.AfterFunc(m.crash.delay, func() {
		again := r.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(body))
		if resp, err := m.base.RoundTrip(again); err == nil {
			resp.Body.Close()
		}
	})
	return nil
}

// crashing starts an agent that crashes at d.
func (w *testHost) crashing(d *crash) (ended <-chan error, stop func()) {
	w.t.Helper()
	base := rest.InMemory(w.compute.handler()).Transport
	o := w.options
	o.Placement, o.Hypervisor = crashingPlacement{w.placement, d}, crashingHypervisor{w.guests, d}
	if o.DataPlane != nil {
		o.DataPlane = crashingDataPlane{o.DataPlane, d}
	}
	if o.VFs != nil {
		o.VFs = crashingVFs{o.VFs, d}
	}
	o.Compute = host.Client{REST: &rest.Client{Base: "http://compute",
		HTTP: &http.Client{Transport: crashingTransport{base, d}}}}
	a, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	d.cancel = cancel
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return done, cancel
}

// runAgents runs agents one after the other, the next when one has crashed, until done returns true, and stops the
// last. crashes returns the crash of each.
func (w *testHost) runAgents(done func() bool, crashes func() *crash) {
	w.t.Helper()
	ended, stop := w.crashing(crashes())
	for range 3000 {
		if done() {
			break
		}
		select {
		case err := <-ended:
			if err != nil {
				w.t.Fatalf("an agent ended with %v", err)
			}
			stop()
			ended, stop = w.crashing(crashes())
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		w.t.Fatal(err)
	}
	if !done() {
		w.t.Fatalf("the expected state is not reached; compute received %s", w.compute.logText())
	}
}

// crashOnce returns the crash of the agent that makes a call, and none for the agents after it.
func crashOnce(at int, after bool) (crashes func() *crash, only *crash) {
	only = &crash{call: at, after: after}
	return func() *crash {
		if only.crashed {
			return &crash{}
		}
		return only
	}, only
}

// crashAtCalls runs a scenario in a bubble with a crash before the agent's n-th call, and with one after it, for n = 1
// and every step-th n, until a run has fewer calls. It fails if that is not between least and most calls. With the race
// detector there are fewer crashes; CI runs these tests without it too.
func crashAtCalls(t *testing.T, step, least, most int, scenario func(t *testing.T, crashes func() *crash)) {
	if raceDetector && !testing.Short() {
		step *= 12
	}
	for _, after := range []bool{false, true} {
		at, reached := 1, true
		for ; reached && at < most; at += step {
			ok := t.Run(fmt.Sprintf("call %d after=%v", at, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					crashes, first := crashOnce(at, after)
					scenario(t, crashes)
					reached = first.crashed
				})
			})
			if !ok {
				return
			}
		}
		if at < least || at >= most {
			t.Errorf("the scenario has %d calls", at)
		}
	}
}
