package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// quietHost is a machine, and how many providers of devices its agent reports.
type quietHost struct {
	name      string
	facts     facts.Source
	specs     string
	providers int
	nodes     int           // providers of NUMA nodes
	held      []pci.Address // by a guest each
}

// devicesOnly is a machine with many devices.
type devicesOnly int

func (devicesOnly) Check() error { return nil }

func (n devicesOnly) Read(pci.Rules) (f facts.Facts, err error) {
	for i := range int(n) {
		f.Devices = append(f.Devices, pci.Device{Address: pci.Address{Bus: uint8(i / 32), Slot: uint8(i % 32)},
			Type: pci.Plain, Vendor: "10de", Product: "2941", NUMANode: pci.NoNUMA, IOMMUGroup: pci.NoGroup})
	}
	return f, nil
}

// manyProviders is a host of which each of 200 devices has a provider.
func manyProviders() quietHost {
	return quietHost{"200 providers", devicesOnly(200), `{"vendor_id":"10de"}`, 200, 0,
		[]pci.Address{{}, {Slot: 1}, {Slot: 2}}}
}

// gpuMachine is a host with 1,060 devices in a directory like /sys: 8 GPUs, 4 switches of NVLink, 8 NICs of 128 VFs, 16
// disks, on 8 NUMA nodes. All are offered except the PFs.
func gpuMachine(tb testing.TB) quietHost {
	dir := tb.TempDir()
	put := func(name, text string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	link := func(name, to string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.Symlink(to, name); err != nil {
			tb.Fatal(err)
		}
	}
	group := 0
	add := func(a pci.Address, node int, class, id, driver string) (at string) {
		at = fmt.Sprintf("devices/pci0000:%02x/0000:%02x:01.0/%s", a.Bus, a.Bus, a)
		put(at+"/uevent", fmt.Sprintf("DRIVER=%s\nPCI_CLASS=%s\nPCI_ID=%s\nPCI_SLOT_NAME=%s", driver, class, id, a))
		put(at+"/numa_node", fmt.Sprint(node))
		group++
		link(at+"/iommu_group", fmt.Sprint("../../../../kernel/iommu_groups/", group))
		link("bus/pci/devices/"+a.String(), "../../../"+at)
		return at
	}
	for n := range uint8(8) {
		put(fmt.Sprintf("devices/system/node/node%d/cpulist", n), fmt.Sprintf("%d-%d", n*16, n*16+15))
		put(fmt.Sprintf("devices/system/node/node%d/meminfo", n), fmt.Sprintf("Node %d MemTotal: 131072000 kB", n))
		for cpu := int(n) * 16; cpu < int(n)*16+16; cpu++ {
			topology := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
			put(topology+"physical_package_id", fmt.Sprint(n/4))
			put(topology+"thread_siblings_list", fmt.Sprintf("%d-%d", cpu&^1, cpu|1))
		}
		add(pci.Address{Bus: 0x10 + n}, int(n), "30200", "10DE:2330", "vfio-pci")
		if n < 4 {
			add(pci.Address{Bus: 0x20 + n}, int(n), "68000", "10DE:22A3", "vfio-pci")
		}
		for disk := range uint8(2) {
			add(pci.Address{Bus: 0x30 + 2*n + disk}, int(n), "10802", "144D:A80A", "vfio-pci")
		}
		pf := pci.Address{Bus: 0x50 + n}
		at := add(pf, int(n), "20000", "15B3:1021", "mlx5_core")
		for file, text := range map[string]string{"sriov_totalvfs": "128", "sriov_numvfs": "128", "sriov_vf_device": "101e",
			fmt.Sprintf("net/ens%d/address", n): "00:00:00:00:00:00"} {
			put(at+"/"+file, text)
		}
		for vf := 1; vf <= 128; vf++ {
			link(add(pci.Address{Bus: pf.Bus, Slot: uint8(vf / 8), Func: uint8(vf % 8)}, int(n), "20000", "15B3:101E",
				"vfio-pci")+"/physfn", "../"+pf.String())
		}
	}
	return quietHost{"1060 devices", sysfs.Source{FS: os.DirFS(dir), Name: dir}, `[{"vendor_id":"10de"},
		{"vendor_id":"144d"}, {"vendor_id":"15b3", "product_id":"101e", "resource_class":"CUSTOM_VF"}]`, 8 + 4 + 8 + 16, 8,
		[]pci.Address{{Bus: 0x10}, {Bus: 0x50, Func: 1}, {Bus: 0x50, Func: 2}, {Bus: 0x57, Slot: 16}}}
}

// requests counts the requests to a handler by method and path.
type requests struct {
	http.Handler
	mu     sync.Mutex
	counts map[string]int
	total  int
}

func (r *requests) ServeHTTP(w http.ResponseWriter, of *http.Request) {
	r.mu.Lock()
	path, _, _ := strings.Cut(of.URL.Path, "?")
	parts := strings.Split(path, "/")
	r.counts[of.Method+" "+parts[1]+" "+parts[len(parts)-1]]++
	r.total++
	r.mu.Unlock()
	r.Handler.ServeHTTP(w, of)
}

// rescans returns the number of rescans, which list the providers of the tree once each, and that of all requests.
func (r *requests) rescans() (rescans, total int, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts["GET resource_providers resource_providers"], r.total, fmt.Sprint(r.counts)
}

func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts, r.total = map[string]int{}, 0
}

// quietAgent runs the agent of a host beside Berth's Placement.
type quietAgent struct {
	testing.TB
	quietHost
	dir      string
	client   *placement.Client
	requests *requests
	log      *slog.Logger
}

// quietRoot is the id of the root provider.
const quietRoot = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

func (q *quietAgent) check(err error) {
	q.Helper()
	if err != nil {
		q.Fatal(err)
	}
}

// newQuietAgent starts Placement, and lets the agent write its tree there, of which guests then hold devices.
func newQuietAgent(tb testing.TB, of quietHost) *quietAgent {
	q := &quietAgent{TB: tb, quietHost: of, dir: tb.TempDir(), log: slog.New(slog.DiscardHandler)}
	file := filepath.Join(q.dir, "berth.conf")
	q.check(os.WriteFile(file, []byte("[api]\nauth_strategy = noauth2\n"), 0o600))
	config, err := settings.Read(q.log, file)
	q.check(err)
	service, err := OpenPlacement(tb.Context(), "sqlite:///"+filepath.Join(q.dir, "placement.db"), config,
		settings.NoAuth2, q.log)
	q.check(err)
	tb.Cleanup(func() { q.check(service.Close()) })
	q.requests = &requests{Handler: service.Handler, counts: map[string]int{}}
	q.client = placement.NewClient("http://placement", rest.InMemory(q.requests), "admin")
	stop := q.start()
	q.until("the tree is written", func() bool {
		tree, err := q.client.Tree(tb.Context(), quietRoot)
		devices, nodes := 0, 0
		for _, p := range tree.Providers {
			switch {
			case p.Parent == "" || len(p.Inventories) == 0:
			case p.HasTrait(numa.NodeTrait):
				nodes++
			default:
				devices++
			}
		}
		return err == nil && devices == of.providers && nodes == of.nodes
	})
	stop()
	q.holdDevices()
	return q
}

// start starts the agent, which rescans without a pause.
func (q *quietAgent) start() (stop func()) {
	guests, err := fake.New(filepath.Join(q.dir, "guests"), hypervisor.Capacity{VCPUs: 128, MemoryMB: 4096, DiskGB: 100})
	q.check(err)
	rules, err := pci.ParseSpecs(q.specs)
	q.check(err)
	agent, err := loop.New(loop.Options{Host: "cmp1", Facts: q.facts,
		Reported: loop.Reported{Rules: rules, ReportInPlacement: true,
			CPUs: state.CPUs{InPlacement: true, CPURatio: 4}},
		Placement: placement.WithTreeMemory(q.client), Hypervisor: guests, Dir: filepath.Join(q.dir, "journal"), Log: q.log,
		Compute: host.Client{REST: &rest.Client{Base: "http://127.0.0.1:1", HTTP: http.DefaultClient}},
		Times:   loop.Times{Rescan: time.Millisecond}, NewID: func() string { return quietRoot }})
	q.check(err)
	ctx, cancel := context.WithCancel(q.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	return func() { cancel(); q.check(<-ended) }
}

func (q *quietAgent) until(what string, reached func() bool) {
	q.Helper()
	if held, _ := testenv.Wait(reached); !held {
		_, _, text := q.requests.rescans()
		q.Fatalf("not reached: %s; requests: %s", what, text)
	}
}

// untilRescans waits for more rescans than a number.
func (q *quietAgent) untilRescans(number int) {
	q.until("rescans", func() bool { n, _, _ := q.requests.rescans(); return n > number })
}

// holdDevices writes a journal in which guests hold devices, and their allocations.
func (q *quietAgent) holdDevices() {
	j, err := journal.Open(filepath.Join(q.dir, "journal"))
	q.check(err)
	rules, err := pci.ParseSpecs(q.specs)
	q.check(err)
	found, err := q.facts.Read(rules)
	q.check(err)
	held := 0
	for _, d := range found.Devices {
		if !slices.Contains(q.held, d.Address) {
			continue
		}
		held++
		name, class := d.Holder().ProviderName("cmp1"), pci.ClassFor(d.Vendor, d.Product)
		if d.Parent != nil {
			class = "CUSTOM_VF"
		}
		id := resource.ConsumerID(fmt.Sprintf("00000000-0000-4000-8000-%012d", held))
		claim := device.Claim{Offer: device.Offer{Name: name, Offered: pci.Offered{Device: d, Holder: id, RequestID: "r",
			ResourceClass: class, Provider: provider.IDFromName(quietRoot, name), State: pci.Allocated}}}
		q.check(j.Write(journal.Put(string(id), []device.Claim{claim})))
		q.check(q.client.PutAllocation(q.Context(), id, placement.ConsumerAllocation{
			Allocation: resource.Allocation{claim.Provider: {class: 1}}, Project: "p", User: "u", ConsumerType: "INSTANCE"}))
	}
	if held != len(q.held) {
		q.Fatalf("%d of %d devices to hold", held, len(q.held))
	}
	q.check(j.Close())
}

// TestQuietRescanMakesTwoRequests runs agents with many devices, of which guests hold some, beside Berth's Placement: a
// rescan that finds no change reads the list of the tree's providers and the allocations of the tree.
func TestQuietRescanMakesTwoRequests(t *testing.T) {
	for _, of := range []quietHost{manyProviders(), gpuMachine(t)} {
		t.Run(of.name, func(t *testing.T) {
			q := newQuietAgent(t, of)
			stop := q.start()
			q.requests.reset()
			q.untilRescans(2) // the first rescan reads everything
			q.requests.reset()
			q.untilRescans(5)
			stop()
			if rescans, total, text := q.requests.rescans(); total > 2*rescans+1 { // one may have been in progress
				t.Errorf("%d rescans made %d requests: %s", rescans, total, text)
			}
		})
	}
}

// BenchmarkQuietRescan measures rescans without changes of a host with 1,060 devices: the requests to Placement, and
// the processor time and the allocated memory of the agent and of Placement together.
func BenchmarkQuietRescan(b *testing.B) {
	q := newQuietAgent(b, gpuMachine(b))
	stop := q.start()
	q.requests.reset()
	q.untilRescans(2)
	q.requests.reset()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	worked := processorTime()
	for b.Loop() {
		n, _, _ := q.requests.rescans()
		q.untilRescans(n)
	}
	worked = processorTime() - worked
	runtime.ReadMemStats(&after)
	rescans, total, _ := q.requests.rescans()
	stop()
	b.ReportMetric(float64(total)/float64(rescans), "requests/rescan")
	b.ReportMetric(worked.Seconds()*1000/float64(rescans), "cpu-ms/rescan")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(rescans)/(1<<20), "MB/rescan")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc)/(1<<20), "heap-MB")
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
