package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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

// requests counts the requests to a handler by method and path.
type requests struct {
	http.Handler
	mu     sync.Mutex
	counts map[string]int
	total  int
}

func (r *requests) ServeHTTP(w http.ResponseWriter, of *http.Request) {
	r.mu.Lock()
	if r.counts != nil {
		path, _, _ := strings.Cut(of.URL.Path, "?")
		parts := strings.Split(path, "/")
		r.counts[of.Method+" "+parts[1]+" "+parts[len(parts)-1]]++
		r.total++
	}
	r.mu.Unlock()
	r.Handler.ServeHTTP(w, of)
}

// TestQuietRescanMakesTwoRequests runs an agent with many devices, of which guests hold some, beside Berth's Placement:
// a rescan that finds no change reads the list of the tree's providers and the allocations of the tree.
func TestQuietRescanMakesTwoRequests(t *testing.T) {
	const devices, root = 200, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	log, dir := slog.New(slog.DiscardHandler), t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "berth.conf")
	check(os.WriteFile(file, []byte("[api]\nauth_strategy = noauth2\n"), 0o600))
	config, err := settings.Read(log, file)
	check(err)
	database := "sqlite:///" + filepath.Join(dir, "placement.db")
	service, err := OpenPlacement(t.Context(), database, config, settings.NoAuth2, log)
	check(err)
	defer func() { check(service.Close()) }()
	counted := &requests{Handler: service.Handler}
	client := placement.NewClient("http://placement", rest.InMemory(counted), "admin")
	guests, err := fake.New(filepath.Join(dir, "guests"), hypervisor.Capacity{VCPUs: 8, MemoryMB: 4096, DiskGB: 100})
	check(err)
	rules, err := pci.ParseSpecs(`{"vendor_id":"10de"}`)
	check(err)
	start := func() (stop func()) {
		agent, err := loop.New(loop.Options{Host: "cmp1", Facts: devicesOnly(devices),
			Reported:  loop.Reported{Rules: rules, ReportInPlacement: true},
			Placement: placement.WithTreeMemory(client), Hypervisor: guests, Dir: filepath.Join(dir, "journal"), Log: log,
			Compute: host.Client{REST: &rest.Client{Base: "http://127.0.0.1:1", HTTP: http.DefaultClient}},
			Times:   loop.Times{Rescan: 100 * time.Millisecond}, NewID: func() string { return root }})
		check(err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx) }()
		return func() { cancel(); check(<-ended) }
	}
	until := func(what string, reached func() bool) {
		t.Helper()
		for began := time.Now(); !reached(); time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("not reached: %s", what)
			}
		}
	}
	stop := start()
	until("the tree is written", func() bool {
		tree, err := client.Tree(t.Context(), root)
		return err == nil && len(tree.Providers) == 1+devices && len(tree.Providers[devices].Inventories) == 1
	})
	stop()
	for consumer, allocation := range holdDevices(t, filepath.Join(dir, "journal"), root) {
		check(client.PutAllocation(t.Context(), consumer, placement.ConsumerAllocation{Allocation: allocation,
			Project: "p", User: "u", ConsumerType: "INSTANCE"}))
	}
	stop = start()
	count := func() (rescans, total int, text string) {
		counted.mu.Lock()
		defer counted.mu.Unlock()
		return counted.counts["GET resource_providers resource_providers"], counted.total, fmt.Sprint(counted.counts)
	}
	// The first rescan reads everything.
	counted.mu.Lock()
	counted.counts = map[string]int{}
	counted.mu.Unlock()
	until("two rescans", func() bool { n, _, _ := count(); return n > 2 })
	counted.mu.Lock()
	counted.counts, counted.total = map[string]int{}, 0
	counted.mu.Unlock()
	until("five rescans", func() bool { n, _, _ := count(); return n > 5 })
	stop()
	if rescans, total, text := count(); total > 2*rescans+1 { // a rescan may have been in progress at the beginning
		t.Errorf("%d rescans made %d requests: %s", rescans, total, text)
	}
}

// holdDevices writes a journal in which guests hold three devices, and returns their allocations.
func holdDevices(t *testing.T, dir, root string) map[resource.ConsumerID]resource.Allocation {
	t.Helper()
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[resource.ConsumerID]resource.Allocation{}
	found, _ := devicesOnly(3).Read(nil)
	for i, d := range found.Devices {
		name := d.Holder().ProviderName("cmp1")
		id := resource.ConsumerID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1))
		claim := device.Claim{Offer: device.Offer{Name: name, Offered: pci.Offered{Device: d, Holder: id, RequestID: "r",
			ResourceClass: pci.ClassFor(d.Vendor, d.Product), Provider: provider.IDFromName(provider.ID(root), name),
			State: pci.Allocated}}}
		if err := j.Write(journal.Put(string(id), []device.Claim{claim})); err != nil {
			t.Fatal(err)
		}
		all[id] = resource.Allocation{claim.Provider: {claim.ResourceClass: 1}}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}
