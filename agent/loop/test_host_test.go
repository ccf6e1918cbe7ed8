package loop

import (
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
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
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

// ledger is a Placement that knows one host.
type fakePlacement struct {
	mu          sync.Mutex
	tree        provider.Tree
	allocations map[resource.ConsumerID]resource.Allocation
	writes      int
	fail        func(call string) error // asked before each call, without the lock
}

var _ Placement = (*fakePlacement)(nil)

func (l *fakePlacement) enter(call string) (func(), error) {
	if l.fail != nil {
		if err := l.fail(call); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	return l.mu.Unlock, nil
}

func (l *fakePlacement) find(id provider.ID) (*provider.Provider, error) {
	i := slices.IndexFunc(l.tree.Providers, func(p provider.Provider) bool { return p.ID == id })
	if i < 0 {
		return nil, fault.New(fault.NotFound, "ledger", "no provider %s", id)
	}
	return &l.tree.Providers[i], nil
}

func (l *fakePlacement) ProviderByName(_ context.Context, name string) (provider.Provider, error) {
	leave, err := l.enter("ProviderByName")
	if err != nil {
		return provider.Provider{}, err
	}
	defer leave()
	p, found := l.tree.ByName(name)
	if !found {
		return p, fault.New(fault.NotFound, "ledger", "no provider %q", name)
	}
	return p, nil
}

func (l *fakePlacement) Tree(_ context.Context, id provider.ID) (provider.Tree, error) {
	leave, err := l.enter("Tree")
	if err != nil {
		return provider.Tree{}, err
	}
	defer leave()
	if _, err := l.find(id); err != nil {
		return provider.Tree{}, err
	}
	return provider.Tree{Providers: slices.Clone(l.tree.Providers)}.Sorted(), nil
}

func (l *fakePlacement) ProviderAllocations(_ context.Context,
	id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
	leave, err := l.enter("ProviderAllocations")
	if err != nil {
		return nil, err
	}
	defer leave()
	out := map[resource.ConsumerID]resource.Amounts{}
	for consumer, a := range l.allocations {
		if len(a[id]) > 0 {
			out[consumer] = a[id]
		}
	}
	return out, nil
}

func (l *fakePlacement) Allocation(_ context.Context,
	consumer resource.ConsumerID) (placement.ConsumerAllocation, error) {
	leave, err := l.enter("Allocation")
	if err != nil {
		return placement.ConsumerAllocation{}, err
	}
	defer leave()
	return placement.ConsumerAllocation{Allocation: l.allocations[consumer]}, nil
}

func (l *fakePlacement) EnsureClass(context.Context, resource.Class) error {
	return l.write("EnsureClass", nil)
}
func (l *fakePlacement) EnsureTrait(context.Context, resource.Trait) error {
	return l.write("EnsureTrait", nil)
}

func (l *fakePlacement) write(call string, do func() error) error {
	leave, err := l.enter(call)
	if err != nil {
		return err
	}
	defer leave()
	l.writes++
	if do == nil {
		return nil
	}
	return do()
}

func (l *fakePlacement) CreateProvider(_ context.Context, id provider.ID, name string,
	parent provider.ID) (made provider.Provider, err error) {
	err = l.write("CreateProvider", func() error {
		if _, taken := l.tree.ByName(name); taken {
			return fault.New(fault.Conflict, "ledger", "the name %s is taken", name)
		}
		root := id
		if parent != "" {
			root = parent
		}
		made = provider.Provider{ID: id, Name: name, Parent: parent, Root: root}
		l.tree.Providers = append(l.tree.Providers, made)
		return nil
	})
	return made, err
}

func (l *fakePlacement) DeleteProvider(_ context.Context, id provider.ID) error {
	return l.write("DeleteProvider", func() error {
		for _, a := range l.allocations {
			if len(a[id]) > 0 {
				return fault.New(fault.Conflict, "ledger", "%s is in use", id)
			}
		}
		l.tree.Providers = slices.DeleteFunc(l.tree.Providers, func(p provider.Provider) bool { return p.ID == id })
		return nil
	})
}

func (l *fakePlacement) put(call string, id provider.ID, generation int, change func(*provider.Provider)) (now int,
	err error) {
	err = l.write(call, func() error {
		p, err := l.find(id)
		if err != nil {
			return err
		}
		if p.Generation != generation {
			return fault.New(fault.Conflict, "ledger", "generation %d of %s is not %d", p.Generation, p.Name, generation)
		}
		change(p)
		p.Generation++
		now = p.Generation
		return nil
	})
	return now, err
}

func (l *fakePlacement) PutInventories(_ context.Context, id provider.ID, generation int,
	inv map[resource.Class]resource.Inventory) (int, error) {
	return l.put("PutInventories", id, generation, func(p *provider.Provider) { p.Inventories = inv })
}

func (l *fakePlacement) PutTraits(_ context.Context, id provider.ID, generation int, traits []resource.Trait) (int,
	error) {
	return l.put("PutTraits", id, generation, func(p *provider.Provider) { p.Traits = traits })
}

func (l *fakePlacement) Reshape(_ context.Context, r placement.Reshape) error {
	return l.write("Reshape", func() error {
		for id, stock := range r.Inventories {
			if p, err := l.find(id); err != nil || p.Generation != stock.Generation {
				return fault.New(fault.Conflict, "ledger", "generation of %s is not %d: %w", id, stock.Generation, err)
			}
		}
		next := maps.Clone(l.allocations)
		for consumer, held := range r.Allocations {
			next[consumer] = held.Allocation
		}
		for id, stock := range r.Inventories {
			for class, inv := range stock.Inventories {
				used, before := 0, 0
				for consumer := range next {
					used += next[consumer][id][class]
					before += l.allocations[consumer][id][class]
				}
				if used > before && used > inv.Capacity() {
					return fault.New(fault.Conflict, "ledger", "%d %s of %s do not fit into %+v", used, class, id, inv)
				}
			}
		}
		l.allocations = next
		for id, stock := range r.Inventories {
			p, _ := l.find(id)
			p.Inventories = stock.Inventories
			p.Generation += 3
		}
		return nil
	})
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
		placement: &fakePlacement{allocations: map[resource.ConsumerID]resource.Allocation{}}}
	guests, err := fake.New(filepath.Join(w.dir, "guests"), hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	w.guests = guests
	rules, err := pci.ParseSpecs(`{"vendor_id":"8086","product_id":"154c"}`)
	if err != nil {
		t.Fatal(err)
	}
	w.options = Options{Host: "cmp1", Sys: w.sysfs, Rules: rules, ReportInPlacement: true, Placement: w.placement,
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
	w.placement.mu.Lock()
	defer w.placement.mu.Unlock()
	w.placement.allocations[resource.ConsumerID(id)] = a
	return s
}

func (w *testHost) provider(name string) provider.Provider {
	w.placement.mu.Lock()
	defer w.placement.mu.Unlock()
	p, _ := w.placement.tree.ByName(name)
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
