package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/server"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// eitherPlacement is Berth's Placement, or one without the paths of Berth's own, such as OpenStack's.
type eitherPlacement struct {
	http.Handler

	mu       sync.Mutex
	original bool
	asked    []string
}

func (p *eitherPlacement) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.URL.Path)
	hide := p.original && strings.HasPrefix(r.URL.Path, "/berth/")
	p.mu.Unlock()
	if hide {
		http.NotFound(w, r)
		return
	}
	p.Handler.ServeHTTP(w, r)
}

// newPlacement returns a Placement with an empty database.
func newPlacement(t *testing.T) (*eitherPlacement, string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), "sqlite:///"+filepath.Join(testenv.MemoryDir(t), "placement.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	rows, err := store.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if err := rows.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(t.Context(), rows, server.Options{Options: edge.Options{Authenticate: identity.NoAuth2,
		Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	p := &eitherPlacement{Handler: s}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	return p, web.URL
}

// fillPlacement writes two hosts with devices, a storage pool and what consumers hold.
func fillPlacement(t *testing.T, url string) (roots map[string]provider.ID) {
	t.Helper()
	c, ctx := placement.NewClient(url, nil, "admin"), t.Context()
	ids, generations := map[string]provider.ID{}, map[string]int{}
	put := func(name, parent string, class resource.Class, total int, traits ...resource.Trait) {
		t.Helper()
		p, err := c.CreateProvider(ctx, "", name, ids[parent])
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(class), "CUSTOM_") {
			if err := c.EnsureClass(ctx, class); err != nil {
				t.Fatal(err)
			}
		}
		ids[name] = p.ID
		generations[name], err = c.PutInventories(ctx, p.ID, p.Generation,
			map[resource.Class]resource.Inventory{class: resource.Whole(total)})
		if err == nil && len(traits) > 0 {
			generations[name], err = c.PutTraits(ctx, p.ID, generations[name], traits)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("cmp1", "", "VCPU", 8, "HW_CPU_X86_AVX2")
	put("cmp1_0000:81:00.0", "cmp1", "SRIOV_NET_VF", 4, "HW_NIC_SRIOV", "COMPUTE_MANAGED_PCI_DEVICE")
	put("cmp1_0000:82:00.0", "cmp1", "CUSTOM_GPU", 1, "COMPUTE_MANAGED_PCI_DEVICE")
	put("cmp1_pci_0000_84_00_0", "cmp1", "VGPU", 16)
	put("cmp1_NUMA0", "cmp1", "PCPU", 4)
	put("cmp1:NIC Switch agent:eth1", "cmp1", "NET_BW_EGR_KILOBIT_PER_SEC", 1000)
	put("cmp2", "", "VCPU", 2)
	put("cmp2_0000:81:00.0", "cmp2", "CUSTOM_GPU", 1)
	put("nfs", "", "DISK_GB", 100, "MISC_SHARES_VIA_AGGREGATE")
	hold := func(consumer resource.ConsumerID, held resource.Allocation) {
		t.Helper()
		err := c.PutAllocation(ctx, consumer, placement.ConsumerAllocation{Allocation: held, Project: "p", User: "u",
			ConsumerType: "INSTANCE"})
		if err != nil {
			t.Fatal(err)
		}
	}
	hold("c0000000-0000-4000-8000-000000000001", resource.Allocation{ids["cmp1"]: {"VCPU": 2},
		ids["cmp1_0000:81:00.0"]: {"SRIOV_NET_VF": 2}, ids["cmp1:NIC Switch agent:eth1"]: {"NET_BW_EGR_KILOBIT_PER_SEC": 9}})
	hold("c0000000-0000-4000-8000-000000000002", resource.Allocation{ids["cmp1_0000:81:00.0"]: {"SRIOV_NET_VF": 1},
		ids["cmp1_NUMA0"]: {"PCPU": 4}})
	hold("c0000000-0000-4000-8000-000000000003", resource.Allocation{ids["cmp2_0000:81:00.0"]: {"CUSTOM_GPU": 1}})
	p, err := c.ProviderByName(ctx, "cmp1_NUMA0")
	if err == nil {
		_, err = c.PutInventories(ctx, p.ID, p.Generation, // less than is allocated
			map[resource.Class]resource.Inventory{"PCPU": resource.Whole(3)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// newNovaBesidePlacement returns the flags of commands for a fake of Nova beside a Placement with devices.
func newNovaBesidePlacement(t *testing.T) (*eitherPlacement, *cli.Globals, *bytes.Buffer) {
	t.Helper()
	p, url := newPlacement(t)
	ids := fillPlacement(t, url)
	type doc = map[string]any
	server := doc{"id": "c0000000-0000-4000-8000-000000000001", "name": "web", "status": "ACTIVE", "tenant_id": "p",
		"created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z", "image": "",
		"flavor": doc{"vcpus": 2, "original_name": "small"}, "OS-EXT-SRV-ATTR:host": "cmp1",
		"OS-EXT-SRV-ATTR:hypervisor_hostname": "cmp1"}
	answers := map[string]any{
		"/": doc{"versions": []any{doc{"id": "v2.1", "version": "2.96"}}},
		"/v2.1/flavors/detail": doc{"flavors": []any{
			doc{"id": "small", "name": "small", "vcpus": 1, "extra_specs": doc{}},
			doc{"id": "gpu", "name": "gpu", "vcpus": 1, "extra_specs": doc{"resources:CUSTOM_GPU": "1"}},
			doc{"id": "huge", "name": "huge", "vcpus": 99, "extra_specs": doc{}},
			doc{"id": "none", "name": "none", "vcpus": 1, "extra_specs": doc{"resources:CUSTOM_NONE": "1"}},
			doc{"id": "wrong", "name": "wrong", "vcpus": 1, "extra_specs": doc{"resources:VCPU": "many"}}}},
		"/v2.1/servers/detail":                   doc{"servers": []any{server}},
		"/v2.1/servers/" + server["id"].(string): doc{"server": server},
		"/v2.1/os-migrations": doc{"migrations": []any{doc{"uuid": "c0000000-0000-4000-8000-000000000002",
			"instance_uuid": server["id"], "migration_type": "resize", "status": "finished", "id": 1}}},
		"/v2.1/os-hypervisors/detail": doc{"hypervisors": []any{
			doc{"id": ids["cmp1"], "hypervisor_hostname": "cmp1", "service": doc{"host": "cmp1"}},
			doc{"id": "other", "hypervisor_hostname": "cmp2", "service": doc{"host": "cmp2"}},
			doc{"id": "third", "hypervisor_hostname": "cmp3", "service": doc{"host": "cmp3"}}}},
		"/v2.1/os-services": doc{"services": []any{doc{"host": "cmp1", "state": "up", "zone": "a"},
			doc{"host": "cmp2", "state": "down", "zone": "b"}}},
	}
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if r.URL.Query().Get("deleted") != "" {
			answer = doc{"servers": []any{}}
		}
		if !known {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		json.NewEncoder(w).Encode(answer) // the client may be gone
	}))
	t.Cleanup(nova.Close)
	var out bytes.Buffer
	return p, &cli.Globals{PlacementURL: url, ComputeURL: nova.URL, Token: "admin",
		OutputFlags: cli.OutputFlags{Wide: true}, Stdout: &out, Stderr: &bytes.Buffer{}}, &out
}

// Beside Nova the commands print the same with Berth's Placement, whose own paths have it with one request, and with
// OpenStack's, which is read provider by provider.
func TestRowsOfBothPlacements(t *testing.T) {
	p, g, out := newNovaBesidePlacement(t)
	for name, c := range map[string]struct {
		command  interface{ Run(*cli.Globals) error }
		path     string // of Berth's own, the last one
		contains string
	}{
		"host list":   {&cli.HostListCmd{}, "/berth/v1/hosts", "cmp1_NUMA0: 4 of 3 PCPU are allocated"},
		"host show":   {&cli.HostShowCmd{Host: "cmp1"}, "/berth/v1/trees/", "1000"},
		"device list": {&cli.DeviceListCmd{}, "/berth/v1/devices", "resize of web"},
		"device list --long": {&cli.DeviceListCmd{LongOutput: cli.LongOutput{Long: true}}, "/berth/v1/devices",
			"HW_NIC_SRIOV"},
		"device list --state": {&cli.DeviceListCmd{State: "allocated"}, "/berth/v1/devices", "unknown consumer"},
		"device list --host":  {&cli.DeviceListCmd{Host: "cmp1"}, "/berth/v1/trees/", "0000:84:00.0"},
		"device show": {&cli.DeviceShowCmd{Host: "cmp1", Address: "0000:81:00.0"}, "/berth/v1/trees/",
			"partly allocated"},
		"tree":           {&cli.TreeCmd{Host: "cmp1"}, "/berth/v1/trees/", "cmp1_NUMA0"},
		"headroom small": {&cli.HeadroomCmd{Flavor: []string{"small"}}, "/berth/v1/headroom", "6 more servers fit"},
		"headroom gpu":   {&cli.HeadroomCmd{Flavor: []string{"gpu"}}, "/berth/v1/headroom", "CUSTOM_GPU"},
		"headroom huge":  {&cli.HeadroomCmd{Flavor: []string{"huge"}}, "/berth/v1/headroom", "0 more servers fit"},
		"headroom by host": {&cli.HeadroomCmd{Flavor: []string{"small", "gpu", "huge", "wrong"}, By: "host"},
			"/berth/v1/headroom", "cmp1"},
		"headroom of a class that Placement does not have": {&cli.HeadroomCmd{Flavor: []string{"none"}},
			"/berth/v1/events", "0 more servers fit"},
	} {
		for _, g.Output = range []string{"table", "json"} {
			var texts [2]string
			for i, original := range []bool{false, true} {
				p.mu.Lock()
				p.original, p.asked = original, nil
				p.mu.Unlock()
				out.Reset()
				if err := c.command.Run(g); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				texts[i] = out.String()
				p.mu.Lock()
				if !original && (len(p.asked) > 4 || !strings.HasPrefix(p.asked[len(p.asked)-1], c.path)) {
					t.Errorf("%s: %q", name, p.asked)
				}
				p.mu.Unlock()
			}
			if texts[0] != texts[1] || g.Output == "table" && !strings.Contains(texts[0], c.contains) {
				t.Errorf("%s with Berth's Placement\n%s\nwith OpenStack's\n%s", name, texts[0], texts[1])
			}
		}
	}
	if text := g.Stderr.(*bytes.Buffer).String(); text != "" {
		t.Error(text)
	}
}
