package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
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
	rootID = "11111111-1111-4111-8111-111111111111"
	class  = "CUSTOM_PCI_8086_154C"
	pf1    = "0000:3b:00.0"
	pf2    = "0000:5e:00.0"
	name1  = "cmp1_0000:3B:00.0"
	name2  = "cmp1_0000:5E:00.0"
)

// machine is a /sys that can change.
type machine struct {
	mu   sync.Mutex
	tree fstest.MapFS
}

// newMachine has two PFs with two VFs each.
func newMachine() *machine {
	m := &machine{tree: fstest.MapFS{}}
	for _, pf := range []string{pf1, pf2} {
		m.add(pf, "1572", "")
		m.add(strings.TrimSuffix(pf, "0")+"1", "154c", pf)
		m.add(strings.TrimSuffix(pf, "0")+"2", "154c", pf)
	}
	return m
}

func (m *machine) add(address, product, parent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.tree)
	dir := "bus/pci/devices/" + address + "/"
	for name, text := range map[string]string{"vendor": "0x8086", "device": "0x" + product, "class": "0x020000", "numa_node": "1"} {
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
func (m *machine) remove(address string) {
	m.change(func(t fstest.MapFS) {
		maps.DeleteFunc(t, func(name string, _ *fstest.MapFile) bool {
			return strings.HasPrefix(name, "bus/pci/devices/"+address+"/")
		})
	})
}

func (m *machine) spoil(address string) {
	m.change(func(t fstest.MapFS) {
		t["bus/pci/devices/"+address+"/vendor"] = &fstest.MapFile{Data: []byte("garbage")}
	})
}

func (m *machine) change(how func(fstest.MapFS)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.tree)
	how(next)
	m.tree = next
}

func (m *machine) now() fstest.MapFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tree
}

func (m *machine) Open(name string) (fs.File, error)          { return m.now().Open(name) }
func (m *machine) ReadLink(name string) (string, error)       { return m.now().ReadLink(name) }
func (m *machine) Lstat(name string) (fs.FileInfo, error)     { return m.now().Lstat(name) }
func (m *machine) ReadDir(name string) ([]fs.DirEntry, error) { return m.now().ReadDir(name) }

// ledger is a Placement that knows one host.
type ledger struct {
	mu          sync.Mutex
	tree        provider.Tree
	allocations map[resource.ConsumerID]resource.Allocation
	writes      int
	fail        func(call string) error // asked before each call, without the lock
}

var _ Placement = (*ledger)(nil)

func (l *ledger) enter(call string) (func(), error) {
	if l.fail != nil {
		if err := l.fail(call); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	return l.mu.Unlock, nil
}

func (l *ledger) find(id provider.ID) (*provider.Provider, error) {
	i := slices.IndexFunc(l.tree.Providers, func(p provider.Provider) bool { return p.ID == id })
	if i < 0 {
		return nil, fault.New(fault.NotFound, "ledger", "no provider %s", id)
	}
	return &l.tree.Providers[i], nil
}

func (l *ledger) ProviderByName(_ context.Context, name string) (provider.Provider, error) {
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

func (l *ledger) Tree(_ context.Context, id provider.ID) (provider.Tree, error) {
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

func (l *ledger) ProviderAllocations(_ context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
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

func (l *ledger) Allocation(_ context.Context, consumer resource.ConsumerID) (placement.Held, error) {
	leave, err := l.enter("Allocation")
	if err != nil {
		return placement.Held{}, err
	}
	defer leave()
	return placement.Held{Allocation: l.allocations[consumer]}, nil
}

func (l *ledger) EnsureClass(context.Context, resource.Class) error {
	return l.write("EnsureClass", nil)
}
func (l *ledger) EnsureTrait(context.Context, resource.Trait) error {
	return l.write("EnsureTrait", nil)
}

func (l *ledger) write(call string, do func() error) error {
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

func (l *ledger) CreateProvider(_ context.Context, id provider.ID, name string, parent provider.ID) (made provider.Provider, err error) {
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

func (l *ledger) DeleteProvider(_ context.Context, id provider.ID) error {
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

func (l *ledger) put(call string, id provider.ID, generation int, change func(*provider.Provider)) (now int, err error) {
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

func (l *ledger) PutInventories(_ context.Context, id provider.ID, generation int, inv map[resource.Class]resource.Inventory) (int, error) {
	return l.put("PutInventories", id, generation, func(p *provider.Provider) { p.Inventories = inv })
}

func (l *ledger) PutTraits(_ context.Context, id provider.ID, generation int, traits []resource.Trait) (int, error) {
	return l.put("PutTraits", id, generation, func(p *provider.Provider) { p.Traits = traits })
}

// office is a compute that assigns servers to one host and remembers what it is told.
type office struct {
	t       *testing.T
	mu      sync.Mutex
	line    host.Assignments
	changed chan struct{} // closed at each change
	mute    bool          // streams say nothing
	gone    bool          // nothing at all is answered
	deaf    bool          // whatever is told of guests is not heard
	cut     chan struct{} // closed to end all streams
	streams int
	serves  string // the instance of the agent whose report was the last
	heardOf time.Time
	report  host.Report
	reports int
	told    map[string]host.Guest // the last of each server
	said    []string              // "<server> <phase>", and "report free=<n>"
}

func newOffice(t *testing.T) *office {
	return &office{t: t, changed: make(chan struct{}), cut: make(chan struct{}), told: map[string]host.Guest{}}
}

// assign makes these all the servers of the host.
func (o *office) assign(servers ...host.Server) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = host.Assignments{Revision: o.line.Revision + 1, Servers: servers}
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *office) endStreams() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.cut)
	o.cut = make(chan struct{})
}

func (o *office) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /berth/v1/hosts/{host}", func(w http.ResponseWriter, r *http.Request) {
		var report host.Report
		if err := rest.ReadJSON(r, &report); err != nil {
			o.t.Error(err)
		}
		if !o.admit(w, report.Instance) {
			return
		}
		o.takeReport(report)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /berth/v1/hosts/{host}/guests/{server}", func(w http.ResponseWriter, r *http.Request) {
		var g host.Guest
		if err := rest.ReadJSON(r, &g); err != nil {
			o.t.Error(err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.deaf {
			http.Error(w, "compute does not answer", http.StatusServiceUnavailable)
			return
		}
		assigned := slices.ContainsFunc(o.line.Servers, func(s host.Server) bool { return s.ID == r.PathValue("server") })
		if g.Phase == host.Claimed && !assigned {
			o.said = append(o.said, r.PathValue("server")+" refused")
			http.Error(w, "the server is not assigned to this host", http.StatusConflict)
			return
		}
		o.told[r.PathValue("server")] = g
		o.said = append(o.said, r.PathValue("server")+" "+string(g.Phase))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /berth/v1/hosts/{host}/assignments", o.stream)
	return mux
}

func (o *office) takeReport(r host.Report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serves, o.heardOf = r.Instance, time.Now()
	o.report, o.reports = r, o.reports+1
	free := 0
	for _, d := range r.Devices {
		if d.Type == "" || d.State == "" || (d.State == string(device.Available)) != (d.Holder == "") {
			o.t.Errorf("a device that compute cannot take: %+v", d)
		}
		if d.Holder == "" {
			free++
		}
	}
	o.said = append(o.said, fmt.Sprintf("report free=%d", free))
}

// admit refuses a second agent, as compute does.
func (o *office) admit(w http.ResponseWriter, instance string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		http.Error(w, "compute does not answer", http.StatusServiceUnavailable)
		return false
	}
	if o.serves == "" || o.serves == instance || time.Since(o.heardOf) >= 3*time.Minute {
		return true
	}
	http.Error(w, "another agent serves host cmp1: stop it", http.StatusConflict)
	return false
}

func (o *office) stream(w http.ResponseWriter, r *http.Request) {
	if !o.admit(w, r.URL.Query().Get("instance")) {
		return
	}
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	o.mu.Lock()
	o.streams++
	o.mu.Unlock()
	since := r.URL.Query().Get("since")
	for first := true; ; first = false {
		o.mu.Lock()
		line, changed, cut, mute := o.line, o.changed, o.cut, o.mute
		o.mu.Unlock()
		if !mute && !(first && since != "0" && since == fmt.Sprint(line.Revision)) {
			data, err := json.Marshal(line)
			if err != nil {
				o.t.Error(err)
			}
			if _, err := w.Write(append(data, '\n')); err != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-cut:
			return
		case <-changed:
		case <-time.After(host.Heartbeat / 2):
		}
	}
}

func (o *office) phase(server string) host.Phase {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told[server].Phase
}

func (o *office) guest(server string) host.Guest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told[server]
}

// heard is all that was said, joined by commas.
func (o *office) heard() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.said, ",")
}

// forget forgets what it was told of guests.
func (o *office) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = map[string]host.Guest{}
}

// silence stops or starts the streams' talking.
func (o *office) silence(mute bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mute = mute
}

// deafen stops or starts hearing what is told of guests.
func (o *office) deafen(deaf bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deaf = deaf
}

// away lets compute go, or come back.
func (o *office) away(gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = gone
}

// withdraw takes all servers away, and nobody is told: a stream that is cut while compute changes its mind.
func (o *office) withdraw() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = host.Assignments{Revision: o.line.Revision + 1}
}

// count gives one of the numbers.
func (o *office) count(of *int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *of
}

func (o *office) conditions() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.report.Conditions, "\n")
}

// world is a host with everything around its agent.
type world struct {
	t       *testing.T
	dir     string
	machine *machine
	ledger  *ledger
	office  *office
	guests  *fake.Hypervisor
	options Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), machine: newMachine(), office: newOffice(t),
		ledger: &ledger{allocations: map[resource.ConsumerID]resource.Allocation{}}}
	guests, err := fake.New(filepath.Join(w.dir, "guests"), hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	w.guests = guests
	rules, err := pci.ParseSpecs(`{"vendor_id":"8086","product_id":"154c"}`)
	if err != nil {
		t.Fatal(err)
	}
	w.options = Options{Host: "cmp1", Sys: w.machine, Rules: rules, ReportInPlacement: true, Placement: w.ledger,
		Compute:    host.Client{REST: &rest.Client{Base: "http://compute", HTTP: rest.InMemory(w.office.handler())}},
		Hypervisor: guests, Dir: filepath.Join(w.dir, "journal"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		NewID: func() string { return rootID }, Jitter: func() float64 { return 0 }}
	return w
}

// agent makes an agent of the world's options.
func (w *world) agent() *Agent {
	w.t.Helper()
	a, err := New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// start runs an agent until stop, which waits for its end and gives its fault.
func (w *world) start() (a *Agent, stop func() error) {
	w.t.Helper()
	a = w.agent()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return a, sync.OnceValue(func() error { cancel(); return <-ended })
}

// until waits, in the time of the test, until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("never: %s; compute was told %s", what, w.office.heard())
}

func (w *world) untilPhase(phase host.Phase, servers ...string) {
	w.t.Helper()
	for _, s := range servers {
		w.until(s+" "+string(phase), func() bool { return w.office.phase(s) == phase })
	}
}

// want gives a server an allocation and makes its assignment: one device of each of the providers.
func (w *world) want(id string, providers ...string) host.Server {
	s := host.Server{ID: id, Name: "server " + id, VCPUs: 1, MemoryMB: 512, DiskGB: 1}
	a := resource.Allocation{rootID: {"VCPU": 1}}
	for _, name := range providers {
		p := w.provider(name)
		if len(s.Requests) == 0 {
			s.Requests = []host.Request{{ID: "r-" + id, Alias: "nic", Class: class, VendorID: "8086", ProductID: "154c", Type: "type-VF"}}
		}
		s.Requests[0].Count++
		s.Requests[0].Providers = append(s.Requests[0].Providers, string(p.ID))
		if a[p.ID] == nil {
			a[p.ID] = resource.Amounts{}
		}
		a[p.ID][class]++
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.allocations[resource.ConsumerID(id)] = a
	return s
}

func (w *world) provider(name string) provider.Provider {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	p, _ := w.ledger.tree.ByName(name)
	return p
}

func (w *world) writes() int {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	return w.ledger.writes
}

// holders maps each device to the guest that has it, and fails when one has two.
func (w *world) holders() map[string]string {
	w.t.Helper()
	guests, err := w.guests.Guests(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, g := range guests {
		for _, d := range g.Devices {
			if out[d.Address.String()] != "" {
				w.t.Errorf("%s has two holders: %s and %s", d.Address, out[d.Address.String()], g.ID)
			}
			out[d.Address.String()] = g.ID
		}
	}
	return out
}

func (w *world) running() []string {
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
func (w *world) journalled() journal.State {
	w.t.Helper()
	s, err := journal.Read(w.options.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// consistent checks that guests, journal and assignments say the same of these servers and no other.
func (w *world) consistent(servers ...string) {
	w.t.Helper()
	if got := w.running(); !slices.Equal(got, servers) {
		w.t.Errorf("guests %v, want %v", got, servers)
	}
	holders, state := w.holders(), w.journalled()
	if got := state.Servers(); !slices.Equal(got, servers) {
		w.t.Errorf("the journal has %v, want %v", got, servers)
	}
	if left := state.Left(); len(left) > 0 {
		w.t.Errorf("compute was not told that %v are gone", left)
	}
	claims := state.Claims()
	for _, c := range claims {
		if holders[c.Device.Address.String()] != string(c.Holder) || c.State != device.Allocated {
			w.t.Errorf("the journal has %s %s for %s, the hypervisor for %q", c.Device.Address, c.State, c.Holder, holders[c.Device.Address.String()])
		}
	}
	if len(claims) != len(holders) {
		w.t.Errorf("the journal has %d claims, guests have %d devices", len(claims), len(holders))
	}
}

func (w *world) forgetJournal() {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.options.Dir, "journal")); err != nil {
		w.t.Fatal(err)
	}
}
