package loop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
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
	return fault.New(fault.Unavailable, "crash", "killed")
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

// The same scenario runs with a crash at each call in turn. The final state is always the same.
func TestCrashAtEachStep(t *testing.T) {
	const maxCalls = 400
	for _, after := range []bool{false, true} {
		at, reached := 1, true
		for ; reached && at < maxCalls; at += testenv.Stride(7) {
			ok := t.Run(fmt.Sprintf("call %d after=%v", at, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					crashes, first := crashOnce(at, after)
					crashScenario(t, crashes)
					reached = first.crashed
				})
			})
			if !ok {
				return
			}
		}
		if at < 30 || at >= maxCalls {
			t.Errorf("the scenario has %d calls", at)
		}
	}
}

// checkReportedBuilds fails the test when a guest is built before compute has a report of it.
func (w *testHost) checkReportedBuilds() {
	w.guests.Fail = func(_ context.Context, operation, guest string) error {
		if phase := w.compute.phase(guest); operation == "build" && phase != host.Claimed && phase != host.Running {
			w.t.Errorf("%s is built, and the last phase that compute has of it is %q", guest, phase)
		}
		return nil
	}
}

// crashScenario assigns three servers, removes one, and assigns another that needs its devices.
func crashScenario(t *testing.T, crashes func() *crash) {
	w := newTestHost(t)
	w.checkReportedBuilds()
	w.runAgents(func() bool {
		return w.provider(name1).Inventories[class].Total == 2 && w.provider(name2).Inventories[class].Total == 2
	}, crashes)
	w.compute.assign(w.server("s1", name1, name1), w.server("s2", name2), w.server("s3"))
	w.runAgents(func() bool { return w.inPhase(host.Running, "s1", "s2", "s3") }, crashes)
	w.checkConsistent("s1", "s2", "s3")
	was := w.holders()["0000:5e:00.1"]
	w.compute.assign(w.server("s2", name2), w.server("s3"), w.server("s4", name1, name1))
	w.runAgents(func() bool {
		return w.inPhase(host.Running, "s4") && w.inPhase(host.Gone, "s1") && len(w.journalled().Gone()) == 0
	}, crashes)
	w.checkConsistent("s2", "s3", "s4")
	if got := w.holders(); len(got) != 3 || got["0000:5e:00.1"] != was || got["0000:3b:00.1"] != "s4" {
		t.Errorf("holders %v", got)
	}
	if log := w.compute.logText(); strings.Contains(log, "failed") {
		t.Errorf("a server failed: %s", log)
	}
	if n := len(w.placement.tree().Providers); n != 3 {
		t.Errorf("%d providers", n)
	}
}

// A server is deleted while its agent cannot report its claim, and the agent crashes. As compute never received a
// report, it has freed everything at once, so no guest may exist.
func TestNoGuestBeforeComputeHasTheClaim(t *testing.T) {
	scenario(t, "compute refuses reports, deletes the server, and the agent crashes", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.refuseReports(true)
		w.compute.assign(w.server("s1", name1))
		w.until("a claim", func() bool { return slices.Equal(w.journalled().Servers(), []string{"s1"}) })
		time.Sleep(time.Minute)
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v, and compute has no report of them", got)
		}
		w.compute.removeWithoutSending()
		must(t, stop())
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v are left", got)
		}
		w.compute.refuseReports(false)
		_, stop = w.startReported()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "compute refuses the claim of a server that is no longer assigned", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		w.compute.refuseReports(true)
		w.compute.assign(w.server("s1", name1))
		w.until("a claim", func() bool { return slices.Equal(w.journalled().Servers(), []string{"s1"}) })
		w.compute.muteStreams(true) // the agent does not receive the removal
		w.compute.removeWithoutSending()
		w.compute.refuseReports(false)
		w.until("a refusal", func() bool { return strings.Contains(w.compute.logText(), "s1 refused") })
		time.Sleep(10 * time.Second)
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v, which compute has refused", got)
		}
		w.compute.muteStreams(false)
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.checkConsistent()
	})
	scenario(t, "compute refuses reports for a while", func(t *testing.T, w *testHost) {
		var builds int
		w.guests.Fail = func(_ context.Context, operation, _ string) error {
			if operation == "build" {
				if builds++; builds < buildTries {
					return fault.New(fault.Unavailable, "test", "restarting")
				}
			}
			return nil
		}
		_, stop := w.startReported()
		w.compute.refuseReports(true)
		w.compute.assign(w.server("s1", name1))
		time.Sleep(2 * time.Minute)
		w.compute.refuseReports(false)
		w.untilPhase(host.Running, "s1") // refused reports do not count as failed builds
		must(t, stop())
		w.checkConsistent("s1")
	})
}

func (w *testHost) inPhase(phase host.Phase, servers ...string) bool {
	return !slices.ContainsFunc(servers, func(s string) bool { return w.compute.phase(s) != phase })
}

// Servers are added and removed at random, agents crash at random, and some requests arrive after those of the next
// agent. In the end each device has at most one holder, the guests are as assigned, and compute has the final phase of
// each.
func TestRandomCrashes(t *testing.T) {
	for seed := range uint64(25 / testenv.Stride(5)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomCrashScenario(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func randomCrashScenario(t *testing.T, chance *rand.Rand) {
	w := newTestHost(t)
	w.checkReportedBuilds()
	randomCrash := func() *crash {
		return &crash{call: 1 + chance.IntN(60), after: chance.IntN(2) == 0,
			delay: time.Duration(chance.IntN(2)*chance.IntN(3000)) * time.Millisecond}
	}
	w.runAgents(func() bool { return w.provider(name2).Inventories[class].Total == 2 }, func() *crash { return &crash{} })
	free := map[string]int{name1: 2, name2: 2} // devices of each provider
	holds, now, next := map[string][]string{}, map[string]host.Server{}, 0
	for range 8 {
		for _, id := range slices.Sorted(maps.Keys(now)) {
			if chance.IntN(3) == 0 {
				for _, p := range holds[id] {
					free[p]++
				}
				delete(now, id)
			}
		}
		for range chance.IntN(4) {
			id := fmt.Sprintf("s%d", next)
			next++
			for _, p := range []string{name1, name2} {
				if free[p] > 0 && chance.IntN(2) == 0 {
					free[p]--
					holds[id] = append(holds[id], p)
				}
			}
			now[id] = w.server(id, holds[id]...)
		}
		var servers []host.Server
		for _, id := range slices.Sorted(maps.Keys(now)) {
			servers = append(servers, now[id])
		}
		w.compute.assign(servers...)
		rounds := chance.IntN(10)
		w.runAgents(func() bool { rounds--; return rounds < 0 }, randomCrash)
	}
	ids := slices.Sorted(maps.Keys(now))
	w.runAgents(func() bool {
		return w.inPhase(host.Running, ids...) && len(w.journalled().Gone()) == 0 && slices.Equal(w.running(), ids) &&
			slices.Equal(w.journalled().Servers(), ids)
	}, func() *crash { return &crash{} })
	w.checkConsistent(ids...)
	w.compute.mu.Lock()
	defer w.compute.mu.Unlock()
	for id, g := range w.compute.guests {
		if g.Phase == host.Failed || (g.Phase != host.Gone && !slices.Contains(ids, id)) {
			t.Errorf("%s ended %s: %s", id, g.Phase, g.Message)
		}
	}
}
