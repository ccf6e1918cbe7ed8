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
	mu    sync.Mutex
	calls int
	at    int // number of the call; 0: none
	after bool
	delay time.Duration // with after: what it was about to tell compute arrives so much later, when others have spoken
	dead  bool
	kill  context.CancelFunc
}

// delays reports whether the present request arrives late: it is the last one of a crashing agent.
func (d *crash) delays() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead && d.delay > 0
}

func (d *crash) around(do func() error) error {
	d.mu.Lock()
	d.calls++
	now := d.at > 0 && d.calls == d.at
	if now {
		d.dead = true
	}
	dead, after := d.dead, now && d.after
	d.mu.Unlock()
	if !dead {
		return do()
	}
	if now {
		defer d.kill()
	}
	if after {
		_ = do() // it took place, and nobody hears the answer
	}
	return fault.New(fault.Unavailable, "death", "killed")
}

// through is around for calls with an answer.
func aroundCall[T any](d *crash, do func() (T, error)) (out T, err error) {
	err = d.around(func() (err error) {
		out, err = do()
		return err
	})
	return out, err
}

type crashingPlacement struct {
	p Placement
	d *crash
}

func (m crashingPlacement) ProviderByName(ctx context.Context, name string) (provider.Provider, error) {
	return aroundCall(m.d, func() (provider.Provider, error) { return m.p.ProviderByName(ctx, name) })
}
func (m crashingPlacement) Tree(ctx context.Context, id provider.ID) (provider.Tree, error) {
	return aroundCall(m.d, func() (provider.Tree, error) { return m.p.Tree(ctx, id) })
}
func (m crashingPlacement) ProviderAllocations(ctx context.Context,
	id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
	return aroundCall(m.d, func() (map[resource.ConsumerID]resource.Amounts,
		error) {
		return m.p.ProviderAllocations(ctx, id)
	})
}
func (m crashingPlacement) Allocation(ctx context.Context,
	c resource.ConsumerID) (placement.ConsumerAllocation, error) {
	return aroundCall(m.d, func() (placement.ConsumerAllocation, error) { return m.p.Allocation(ctx, c) })
}
func (m crashingPlacement) EnsureClass(ctx context.Context, c resource.Class) error {
	return m.d.around(func() error { return m.p.EnsureClass(ctx, c) })
}
func (m crashingPlacement) EnsureTrait(ctx context.Context, t resource.Trait) error {
	return m.d.around(func() error { return m.p.EnsureTrait(ctx, t) })
}
func (m crashingPlacement) CreateProvider(ctx context.Context, id provider.ID, name string,
	parent provider.ID) (provider.Provider, error) {
	return aroundCall(m.d, func() (provider.Provider, error) { return m.p.CreateProvider(ctx, id, name, parent) })
}
func (m crashingPlacement) DeleteProvider(ctx context.Context, id provider.ID) error {
	return m.d.around(func() error { return m.p.DeleteProvider(ctx, id) })
}
func (m crashingPlacement) PutInventories(ctx context.Context, id provider.ID, g int,
	i map[resource.Class]resource.Inventory) (int, error) {
	return aroundCall(m.d, func() (int, error) { return m.p.PutInventories(ctx, id, g, i) })
}
func (m crashingPlacement) PutTraits(ctx context.Context, id provider.ID, g int, t []resource.Trait) (int, error) {
	return aroundCall(m.d, func() (int, error) { return m.p.PutTraits(ctx, id, g, t) })
}

func (m crashingPlacement) Reshape(ctx context.Context, r placement.Reshape) error {
	return m.d.around(func() error { return m.p.Reshape(ctx, r) })
}

type crashingHypervisor struct {
	h hypervisor.Hypervisor
	d *crash
}

func (m crashingHypervisor) Capacity(ctx context.Context) (hypervisor.Capacity, error) {
	return aroundCall(m.d, func() (hypervisor.Capacity, error) { return m.h.Capacity(ctx) })
}
func (m crashingHypervisor) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	return aroundCall(m.d, func() ([]hypervisor.Guest, error) { return m.h.Guests(ctx) })
}
func (m crashingHypervisor) Build(ctx context.Context, g hypervisor.Guest) error {
	return m.d.around(func() error { return m.h.Build(ctx, g) })
}
func (m crashingHypervisor) Destroy(ctx context.Context, id string) error {
	return m.d.around(func() error { return m.h.Destroy(ctx, id) })
}

func (m crashingHypervisor) Rename(ctx context.Context, was, id, server string) error {
	return m.d.around(func() error { return m.h.Rename(ctx, was, id, server) })
}
func (m crashingHypervisor) Migrate(ctx context.Context, id string, to hypervisor.Destination) error {
	return m.d.around(func() error { return m.h.Migrate(ctx, id, to) })
}

type crashingTransport struct {
	road http.RoundTripper
	d    *crash
}

func (m crashingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := aroundCall(m.d, func() (*http.Response, error) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/guests/") && m.d.delays() {
			return nil, m.delay(r)
		}
		return m.road.RoundTrip(r)
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
	time.AfterFunc(m.d.delay, func() {
		again := r.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(body))
		if resp, err := m.road.RoundTrip(again); err == nil {
			resp.Body.Close()
		}
	})
	return nil
}

// crashing starts an agent that crashes by d.
func (w *testHost) crashing(d *crash) (ended <-chan error, stop func()) {
	w.t.Helper()
	road := rest.InMemory(w.compute.handler()).Transport
	o := w.options
	o.Placement, o.Hypervisor = crashingPlacement{w.placement, d}, crashingHypervisor{w.guests, d}
	o.Compute = host.Client{REST: &rest.Client{Base: "http://compute",
		HTTP: &http.Client{Transport: crashingTransport{road, d}}}}
	a, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	d.kill = cancel
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return done, cancel
}

// runAgents runs agents one after the other, the next when one has crashed, until done returns true, and stops the
// last. deaths returns the crash of each.
func (w *testHost) runAgents(done func() bool, deaths func() *crash) {
	w.t.Helper()
	ended, stop := w.crashing(deaths())
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
			ended, stop = w.crashing(deaths())
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		w.t.Fatal(err)
	}
	if !done() {
		w.t.Fatalf("the world never came to rest; compute was told %s", w.compute.logText())
	}
}

// crashOnce is one crash, of whichever agent makes the call.
func crashOnce(at int, after bool) (deaths func() *crash, the *crash) {
	the = &crash{at: at, after: after}
	return func() *crash {
		if the.dead {
			return &crash{}
		}
		return the
	}, the
}

// The same scenario runs with a crash at each call in turn. The final state is always the same.
func TestCrashAtEachStep(t *testing.T) {
	const most = 400
	for _, after := range []bool{false, true} {
		at, reached := 1, true
		for ; reached && at < most; at += testenv.Stride(7) {
			ok := t.Run(fmt.Sprintf("call %d after=%v", at, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					deaths, first := crashOnce(at, after)
					crashScenario(t, deaths)
					reached = first.dead
				})
			})
			if !ok {
				return
			}
		}
		if at < 30 || at >= most {
			t.Errorf("the story has %d calls", at)
		}
	}
}

// checkReportedBuilds fails the test when a guest is built that was not reported to compute.
func (w *testHost) checkReportedBuilds() {
	w.guests.Fail = func(_ context.Context, operation, guest string) error {
		if phase := w.compute.phase(guest); operation == "build" && phase != host.Claimed && phase != host.Running {
			w.t.Errorf("%s is built, and the last that compute heard of it is %q", guest, phase)
		}
		return nil
	}
}

// crashScenario assigns three servers, removes one, and assigns another that needs its devices.
func crashScenario(t *testing.T, deaths func() *crash) {
	w := newTestHost(t)
	w.checkReportedBuilds()
	w.runAgents(func() bool {
		return w.provider(name1).Inventories[class].Total == 2 && w.provider(name2).Inventories[class].Total == 2
	}, deaths)
	w.compute.assign(w.want("s1", name1, name1), w.want("s2", name2), w.want("s3"))
	w.runAgents(func() bool { return w.are(host.Running, "s1", "s2", "s3") }, deaths)
	w.consistent("s1", "s2", "s3")
	was := w.holders()["0000:5e:00.1"]
	w.compute.assign(w.want("s2", name2), w.want("s3"), w.want("s4", name1, name1))
	w.runAgents(func() bool {
		return w.are(host.Running, "s4") && w.are(host.Gone, "s1") && len(w.journalled().Gone()) == 0
	}, deaths)
	w.consistent("s2", "s3", "s4")
	if got := w.holders(); len(got) != 3 || got["0000:5e:00.1"] != was || got["0000:3b:00.1"] != "s4" {
		t.Errorf("holders %v", got)
	}
	if said := w.compute.logText(); strings.Contains(said, "failed") {
		t.Errorf("a server failed: %s", said)
	}
	if n := len(w.placement.tree().Providers); n != 3 {
		t.Errorf("%d providers", n)
	}
}

// A server is deleted while its agent cannot report its claim, and the agent crashes. As compute never received a
// report, it has freed everything at once, so no guest may exist.
func TestNoGuestBeforeComputeHasTheClaim(t *testing.T) {
	scenario(t, "compute refuses reports, deletes the server, and the agent crashes", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.refuseReports(true)
		w.compute.assign(w.want("s1", name1))
		w.until("a claim", func() bool { return slices.Equal(w.journalled().Servers(), []string{"s1"}) })
		time.Sleep(time.Minute)
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v, and compute has heard of none", got)
		}
		w.compute.removeSilently()
		must(t, stop())
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v stay behind", got)
		}
		w.compute.refuseReports(false)
		_, stop = w.begin()
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent()
	})
	scenario(t, "compute refuses the claim of a server that is no longer assigned", func(t *testing.T, w *testHost) {
		_, stop := w.begin()
		w.compute.refuseReports(true)
		w.compute.assign(w.want("s1", name1))
		w.until("a claim", func() bool { return slices.Equal(w.journalled().Servers(), []string{"s1"}) })
		w.compute.muteStreams(true) // the agent does not hear that it is wanted no more
		w.compute.removeSilently()
		w.compute.refuseReports(false)
		w.until("a refusal", func() bool { return strings.Contains(w.compute.logText(), "s1 refused") })
		time.Sleep(10 * time.Second)
		if got := w.running(); len(got) > 0 {
			t.Errorf("guests %v, which compute has refused", got)
		}
		w.compute.muteStreams(false)
		w.untilPhase(host.Gone, "s1")
		must(t, stop())
		w.consistent()
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
		_, stop := w.begin()
		w.compute.refuseReports(true)
		w.compute.assign(w.want("s1", name1))
		time.Sleep(2 * time.Minute)
		w.compute.refuseReports(false)
		w.untilPhase(host.Running, "s1") // the tries of the hypervisor are not used up by compute's silence
		must(t, stop())
		w.consistent("s1")
	})
}

func (w *testHost) are(phase host.Phase, servers ...string) bool {
	return !slices.ContainsFunc(servers, func(s string) bool { return w.compute.phase(s) != phase })
}

// Servers come and go at random, agents crash at random, and some last requests arrive after those of the next agent.
// In the end each device has at most one holder, the guests are as assigned, and compute has the final phase of each.
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
		return &crash{at: 1 + chance.IntN(60), after: chance.IntN(2) == 0,
			delay: time.Duration(chance.IntN(2)*chance.IntN(3000)) * time.Millisecond}
	}
	w.runAgents(func() bool { return w.provider(name2).Inventories[class].Total == 2 }, func() *crash { return &crash{} })
	free := map[string]int{name1: 2, name2: 2} // as Placement's own ledger would have it
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
			now[id] = w.want(id, holds[id]...)
		}
		var line []host.Server
		for _, id := range slices.Sorted(maps.Keys(now)) {
			line = append(line, now[id])
		}
		w.compute.assign(line...)
		rounds := chance.IntN(10)
		w.runAgents(func() bool { rounds--; return rounds < 0 }, randomCrash)
	}
	ids := slices.Sorted(maps.Keys(now))
	w.runAgents(func() bool {
		return w.are(host.Running, ids...) && len(w.journalled().Gone()) == 0 && slices.Equal(w.running(), ids) &&
			slices.Equal(w.journalled().Servers(), ids)
	}, func() *crash { return &crash{} })
	w.consistent(ids...)
	w.compute.mu.Lock()
	defer w.compute.mu.Unlock()
	for id, g := range w.compute.guests {
		if g.Phase == host.Failed || (g.Phase != host.Gone && !slices.Contains(ids, id)) {
			t.Errorf("%s ended %s: %s", id, g.Phase, g.Message)
		}
	}
}
