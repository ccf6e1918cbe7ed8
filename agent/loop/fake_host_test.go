package loop

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/agent/powervm/slotsurvey"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	sequencePerStart = 1 << 32 // as package reconcile has it

	buildTries = 5 // as package reconcile has it

	rootID = "11111111-1111-4111-8111-111111111111"
	class  = "CUSTOM_PCI_8086_154C"
	pf1    = "0000:3b:00.0"
	pf2    = "0000:5e:00.0"
	name1  = "cmp1_0000:3B:00.0"
	name2  = "cmp1_0000:5E:00.0"
)

const (
	vfRule  = `{"vendor_id":"8086","product_id":"154c"}`
	pfRule  = `{"vendor_id":"8086","product_id":"1572"}`
	pfClass = "CUSTOM_PCI_8086_1572"
)

// testHost is a host with its guests, a fake Placement and a fake compute, and the options of its agent.
type testHost struct {
	t         *testing.T
	dir       string
	sysfs     *fakeSysfs
	placement *fakePlacement
	compute   *fakeCompute
	guests    *fake.Hypervisor
	options   Options
}

func newTestHost(t *testing.T) *testHost {
	t.Helper()
	w := &testHost{t: t, dir: testenv.MemoryDir(t), sysfs: newFakeSysfs(), compute: newFakeCompute(t),
		placement: newFakePlacement()}
	guests, err := fake.New(filepath.Join(w.dir, "guests"), hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	w.guests = guests
	rules, err := pci.ParseSpecs(`{"vendor_id":"8086","product_id":"154c"}`)
	if err != nil {
		t.Fatal(err)
	}
	w.options = Options{Host: "cmp1", Facts: sysfs.Source{FS: w.sysfs, Name: "the host of the test"},
		Reported:   Reported{Kinds: []kind.Kind{slotsurvey.Kind()}, Rules: rules, ReportInPlacement: true},
		Placement:  w.placement,
		Compute:    host.Client{REST: &rest.Client{Base: "http://compute", HTTP: rest.InMemory(w.compute.handler())}},
		Hypervisor: guests, Dir: filepath.Join(w.dir, "journal"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		NewID: func() string { return rootID }, Jitter: func() float64 { return 0 }}
	return w
}

// agent returns a new agent with the host's options.
func (w *testHost) agent() *Agent {
	w.t.Helper()
	a, err := New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// start runs an agent until stop is called, which waits for its end and returns its fault.
func (w *testHost) start() (a *Agent, stop func() error) {
	w.t.Helper()
	a = w.agent()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return a, sync.OnceValue(func() error { cancel(); return <-ended })
}

// until waits, with the clock of the test, until condition returns true, and fails the test when it never does.
func (w *testHost) until(what string, condition func() bool) {
	w.t.Helper()
	for range 3000 {
		if condition() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("not reached: %s; compute received %s", what, w.compute.logText())
}

func (w *testHost) untilPhase(phase host.Phase, servers ...string) {
	w.t.Helper()
	for _, s := range servers {
		w.until(s+" "+string(phase), func() bool { return w.compute.phase(s) == phase })
	}
}

func (w *testHost) provider(name string) provider.Provider {
	p, _ := w.placement.tree().ByName(name)
	return p
}

func (w *testHost) writes() int {
	w.placement.mu.Lock()
	defer w.placement.mu.Unlock()
	return w.placement.writes
}

// holders maps each device to the guest that has it. It fails the test when a device has two holders. A reader of facts
// that an agent has abandoned may call it when the context of the test has ended.
func (w *testHost) holders() map[string]string {
	w.t.Helper()
	guests, err := w.guests.Guests(context.WithoutCancel(w.t.Context()))
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, g := range guests {
		for _, d := range g.Devices {
			if out[d.ID.String()] != "" {
				w.t.Errorf("%s has two holders: %s and %s", d.ID, out[d.ID.String()], g.ID)
			}
			out[d.ID.String()] = g.ID
		}
	}
	return out
}

func (w *testHost) running() []string {
	w.t.Helper()
	guests, err := w.guests.Guests(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, g := range guests {
		ids = append(ids, g.ID)
	}
	return ids
}

// journalled returns the state of the journal on the disk.
func (w *testHost) journalled() journal.State {
	w.t.Helper()
	s, err := journal.Read(w.options.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// checkConsistent checks that the guests and the journal are of these servers and no other, with the same devices, and
// that compute has the reports of all removals.
func (w *testHost) checkConsistent(servers ...string) {
	w.t.Helper()
	if got := w.running(); !slices.Equal(got, servers) {
		w.t.Errorf("guests %v, want %v", got, servers)
	}
	holders, state := w.holders(), w.journalled()
	if got := state.Servers(); !slices.Equal(got, servers) {
		w.t.Errorf("the journal has %v, want %v", got, servers)
	}
	if left := state.Gone(); len(left) > 0 {
		w.t.Errorf("compute has no report that %v are gone", left)
	}
	claims := state.Claims()
	for _, c := range claims {
		if holders[c.Device.Address.String()] != string(c.Holder) || c.State != pci.Allocated {
			w.t.Errorf("the journal has %s %s for %s, the hypervisor for %q", c.Device.Address, c.State, c.Holder,
				holders[c.Device.Address.String()])
		}
	}
	if len(claims) != len(holders) {
		w.t.Errorf("the journal has %d claims, guests have %d devices", len(claims), len(holders))
	}
}

func (w *testHost) forgetJournal() {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.options.Dir, "journal")); err != nil {
		w.t.Fatal(err)
	}
}

// scenario runs a test in a synctest bubble; it fails when a goroutine outlives the test.
func scenario(t *testing.T, name string, run func(t *testing.T, w *testHost)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { run(t, newTestHost(t)) })
	})
}

// startReported starts an agent and waits for its first report.
func (w *testHost) startReported() (*Agent, func() error) {
	w.t.Helper()
	before := w.compute.count(&w.compute.reports)
	a, stop := w.start()
	w.until("a report", func() bool { return w.compute.count(&w.compute.reports) > before })
	return a, stop
}

// refusedStart runs an agent that must not start, and returns the message.
func (w *testHost) refusedStart(kind fault.Kind) string {
	w.t.Helper()
	err := w.agent().Run(w.t.Context())
	if !fault.Is(err, kind) {
		w.t.Fatalf("the start ended with %v, want %s", err, kind)
	}
	return err.Error()
}

// guest returns a guest of the hypervisor.
func (w *testHost) guest(id string) hypervisor.Guest {
	w.t.Helper()
	guests, err := w.guests.Guests(w.t.Context())
	must(w.t, err)
	i := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id })
	if i < 0 {
		return hypervisor.Guest{}
	}
	return guests[i]
}

// allocated returns the amount of a class that a consumer has of a provider.
func (w *testHost) allocated(consumer, name string, of resource.Class) int {
	p := w.provider(name)
	return w.placement.Held(resource.ConsumerID(consumer))[p.ID][of]
}

// deleteAllocation deletes what a consumer has of a provider.
func (w *testHost) deleteAllocation(consumer, name string) {
	p := w.provider(name)
	w.placement.set(resource.ConsumerID(consumer), p.ID, nil)
}

// total returns the total of an inventory, and fails the test unless one request may have all of it.
func (w *testHost) total(name string, of resource.Class) int {
	w.t.Helper()
	inv := w.provider(name).Inventories[of]
	if inv.MaxUnit != inv.Total {
		w.t.Errorf("max_unit of %s is %d, total %d", name, inv.MaxUnit, inv.Total)
	}
	return inv.Total
}

// restart stops the agent and starts another with these rules.
func (w *testHost) restart(stop func() error, text string) func() error {
	w.t.Helper()
	must(w.t, stop())
	setRules(w, text)
	_, next := w.startReported()
	return next
}

// setRules sets device_spec for the agents that start later.
func setRules(w *testHost, text string) {
	w.t.Helper()
	parsed, err := pci.ParseSpecs(text)
	must(w.t, err)
	w.options.Rules = parsed
}

func contains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in %q", word, text)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
