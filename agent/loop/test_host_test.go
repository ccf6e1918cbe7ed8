package loop

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/api/rest"
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

// machine is a /sys that can change.
type fakeSysfs struct {
	mu   sync.Mutex
	tree fstest.MapFS
}

// newMachine has two PFs with two VFs each.
func newFakeSysfs() *fakeSysfs {
	m := &fakeSysfs{tree: fstest.MapFS{}}
	for _, pf := range []string{pf1, pf2} {
		m.add(pf, "1572", "")
		m.add(strings.TrimSuffix(pf, "0")+"1", "154c", pf)
		m.add(strings.TrimSuffix(pf, "0")+"2", "154c", pf)
	}
	return m
}

func (m *fakeSysfs) add(address, product, parent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.tree)
	dir := "bus/pci/devices/" + address + "/"
	for name, text := range map[string]string{"vendor": "0x8086", "device": "0x" + product, "class": "0x020000",
		"numa_node": "1"} {
		next[dir+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	if parent != "" {
		next[dir+"physfn"] = &fstest.MapFile{Data: []byte("../" + parent), Mode: fs.ModeSymlink}
	} else {
		next[dir+"sriov_totalvfs"] = &fstest.MapFile{Data: []byte("2\n")}
		next[dir+"sriov_numvfs"] = &fstest.MapFile{Data: []byte("2\n")}
	}
	m.tree = next
}

// remove takes a device away; spoil leaves it there with a file that makes no sense.
func (m *fakeSysfs) remove(address string) {
	m.change(func(t fstest.MapFS) {
		maps.DeleteFunc(t, func(name string, _ *fstest.MapFile) bool {
			return strings.HasPrefix(name, "bus/pci/devices/"+address+"/")
		})
	})
}

func (m *fakeSysfs) makeUnreadable(address string) {
	m.change(func(t fstest.MapFS) {
		t["bus/pci/devices/"+address+"/vendor"] = &fstest.MapFile{Data: []byte("garbage")}
	})
}

func (m *fakeSysfs) change(how func(fstest.MapFS)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.tree)
	how(next)
	m.tree = next
}

func (m *fakeSysfs) now() fstest.MapFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tree
}

func (m *fakeSysfs) Open(name string) (fs.File, error)          { return m.now().Open(name) }
func (m *fakeSysfs) ReadLink(name string) (string, error)       { return m.now().ReadLink(name) }
func (m *fakeSysfs) Lstat(name string) (fs.FileInfo, error)     { return m.now().Lstat(name) }
func (m *fakeSysfs) ReadDir(name string) ([]fs.DirEntry, error) { return m.now().ReadDir(name) }

// fakePlacement is a Placement in memory that counts writes and can fail.
type fakePlacement struct {
	*placementtest.Placement
	fail func(call string) error // called before each call; set it while no agent runs

	mu     sync.Mutex
	writes int
}

func newFakePlacement() *fakePlacement {
	p := &fakePlacement{Placement: placementtest.New(nil)}
	p.Fail = func(call placementtest.Call) (before, after error) {
		if p.fail != nil {
			if err := p.fail(call.Op); err != nil {
				return err, nil
			}
		}
		if call.Writes() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.writes++
		}
		return nil, nil
	}
	return p
}

// all returns all allocations.
func (p *fakePlacement) all() map[resource.ConsumerID]resource.Allocation {
	out := map[resource.ConsumerID]resource.Allocation{}
	for _, id := range p.Consumers() {
		out[id] = p.Held(id)
	}
	return out
}

// remove deletes the allocation of a consumer.
func (p *fakePlacement) remove(id resource.ConsumerID) { p.SetAllocation(id, nil) }

// set replaces what a consumer has of one provider.
func (p *fakePlacement) set(id resource.ConsumerID, of provider.ID, amounts resource.Amounts) {
	next := resource.Allocation{of: amounts}
	for other, held := range p.Held(id) {
		if other != of {
			next[other] = held
		}
	}
	p.SetAllocation(id, next)
}

// move gives the allocation of one consumer to another.
func (p *fakePlacement) move(from, to resource.ConsumerID) {
	p.SetAllocation(to, p.Held(from))
	p.remove(from)
}

// tree returns all providers.
func (p *fakePlacement) tree() (tree provider.Tree) {
	for _, id := range p.ProviderIDs() {
		one, _ := p.Provider(id)
		tree.Providers = append(tree.Providers, one)
	}
	return tree
}

// setTree replaces all providers.
func (p *fakePlacement) setTree(providers ...provider.Provider) {
	for _, id := range p.ProviderIDs() {
		p.RemoveProvider(id)
	}
	for _, one := range providers {
		one.Root = cmp.Or(one.Root, one.Parent, one.ID)
		p.SetProvider(one)
	}
}

// change changes a provider, as another client of Placement does.
func (p *fakePlacement) change(name string, how func(*provider.Provider)) {
	one, found := p.tree().ByName(name)
	if !found {
		return
	}
	how(&one)
	one.Generation++
	p.SetProvider(one)
}

// world is a host with everything around its agent.
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
	w := &testHost{t: t, dir: t.TempDir(), sysfs: newFakeSysfs(), compute: newFakeCompute(t),
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
	w.options = Options{Host: "cmp1", Facts: sysfs.Source{FS: w.sysfs, Name: "the host of the test"}, Rules: rules,
		ReportInPlacement: true, Placement: w.placement,
		Compute:    host.Client{REST: &rest.Client{Base: "http://compute", HTTP: rest.InMemory(w.compute.handler())}},
		Hypervisor: guests, Dir: filepath.Join(w.dir, "journal"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		NewID: func() string { return rootID }, Jitter: func() float64 { return 0 }}
	return w
}

// agent makes an agent of the world's options.
func (w *testHost) agent() *Agent {
	w.t.Helper()
	a, err := New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// start runs an agent until stop, which waits for its end and gives its fault.
func (w *testHost) start() (a *Agent, stop func() error) {
	w.t.Helper()
	a = w.agent()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return a, sync.OnceValue(func() error { cancel(); return <-ended })
}

// until waits, in the time of the test, until something holds.
func (w *testHost) until(what string, holds func() bool) {
	w.t.Helper()
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("never: %s; compute was told %s", what, w.compute.logText())
}

func (w *testHost) untilPhase(phase host.Phase, servers ...string) {
	w.t.Helper()
	for _, s := range servers {
		w.until(s+" "+string(phase), func() bool { return w.compute.phase(s) == phase })
	}
}

// want gives a server an allocation and makes its assignment: one device of each of the providers.
func (w *testHost) want(id string, providers ...string) host.Server {
	s := host.Server{ID: id, Name: "server " + id, VCPUs: 1, MemoryMB: 512, DiskGB: 1}
	a := resource.Allocation{rootID: {"VCPU": 1}}
	for _, name := range providers {
		p := w.provider(name)
		if len(s.Requests) == 0 {
			s.Requests = []host.Request{{ID: "r-" + id, Alias: "nic", Class: class, VendorID: "8086", ProductID: "154c",
				Type: "type-VF"}}
		}
		s.Requests[0].Count++
		s.Requests[0].Providers = append(s.Requests[0].Providers, string(p.ID))
		if a[p.ID] == nil {
			a[p.ID] = resource.Amounts{}
		}
		a[p.ID][class]++
	}
	w.placement.SetAllocation(resource.ConsumerID(id), a)
	return s
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

// holders maps each device to the guest that has it, and fails when one has two.
func (w *testHost) holders() map[string]string {
	w.t.Helper()
	guests, err := w.guests.Guests(w.t.Context())
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

// journalled reads what is on disk.
func (w *testHost) journalled() journal.State {
	w.t.Helper()
	s, err := journal.Read(w.options.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// consistent checks that guests, journal and assignments have these servers and no other, with equal contents.
func (w *testHost) consistent(servers ...string) {
	w.t.Helper()
	if got := w.running(); !slices.Equal(got, servers) {
		w.t.Errorf("guests %v, want %v", got, servers)
	}
	holders, state := w.holders(), w.journalled()
	if got := state.Servers(); !slices.Equal(got, servers) {
		w.t.Errorf("the journal has %v, want %v", got, servers)
	}
	if left := state.Gone(); len(left) > 0 {
		w.t.Errorf("compute was not told that %v are gone", left)
	}
	claims := state.Claims()
	for _, c := range claims {
		if holders[c.Device.Address.String()] != string(c.Holder) || c.State != device.Allocated {
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
