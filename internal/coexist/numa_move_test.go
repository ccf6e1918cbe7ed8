package coexist

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/loop"
	agentstate "github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestMoveNUMAToNodesAndBack runs an agent with guests in its journal beside Berth's Placement and beside OpenStack's:
// with [berth] numa_in_placement what the guests use is moved to the providers of nodes, with their whole allocations,
// and back. Then claims of full nodes are refused.
func TestMoveNUMAToNodesAndBack(t *testing.T) {
	testenv.Need(t, "OpenStack's Placement")
	for name, start := range map[string]func(*site) *server{"Berth": (*site).startBerth,
		"OpenStack": (*site).startOriginal} {
		t.Run(name, func(t *testing.T) {
			s := &site{t: t, url: databases.SQLite(t)}
			moveNUMA(t, start(s))
		})
	}
}

// numaHost is a host with two nodes, each with one thread for dedicated CPUs and one for shared ones.
type numaHost struct {
	t         *testing.T
	placement *placement.Client
	options   loop.Options
	root      provider.ID
}

func moveNUMA(t *testing.T, of *server) {
	h := newNUMAHost(t, of)
	h.run(false)
	pinned, shared := resource.ConsumerID(uuid.NewString()), resource.ConsumerID(uuid.NewString())
	h.claim(pinned, resource.Allocation{h.root: {"PCPU": 2, "MEMORY_MB": 512, "DISK_GB": 1}})
	h.claim(shared, resource.Allocation{h.root: {"VCPU": 1, "MEMORY_MB": 256}})
	for _, consumer := range []resource.ConsumerID{pinned, shared} { // an agent keeps guests that are not assigned
		must(t, h.options.Hypervisor.Build(t.Context(), hypervisor.Guest{ID: string(consumer), VCPUs: 1, MemoryMB: 256}))
		h.journal(journal.Built(string(consumer), 0))
	}
	h.journal(
		journal.Put(string(pinned), nil, journal.GuestCell{VCPUs: []int{0}, Dedicated: []int{0}, MemoryMB: 256, Node: 0,
			CPUs: map[int]int{0: 1}}, journal.GuestCell{VCPUs: []int{1}, Dedicated: []int{1}, MemoryMB: 256, Node: 1,
			CPUs: map[int]int{1: 3}}),
		journal.Put(string(shared), nil, journal.GuestCell{VCPUs: []int{0}, MemoryMB: 256, Node: 1}))
	before := []resource.Allocation{h.held(pinned), h.held(shared)}

	h.run(true)
	node0, node1 := h.node(0), h.node(1)
	for consumer, want := range map[resource.ConsumerID]resource.Allocation{
		pinned: {h.root: {"MEMORY_MB": 512, "DISK_GB": 1}, node0: {"PCPU": 1, numa.SmallMemory: 256},
			node1: {"PCPU": 1, numa.SmallMemory: 256}},
		shared: {h.root: {"VCPU": 1, "MEMORY_MB": 256}, node1: {numa.SharedCPUs: 1, numa.SmallMemory: 256}},
	} {
		if got := h.held(consumer); !got.Equal(want) {
			t.Errorf("%s has %v, want %v", consumer, got, want)
		}
	}
	for _, refused := range []resource.Allocation{
		{node0: {"PCPU": 1}},          // in use
		{node0: {numa.SharedCPUs: 2}}, // more than its threads, whatever the ratio
		{h.root: {"PCPU": 1}},         // none is there any more
	} {
		if err := h.put(resource.ConsumerID(uuid.NewString()), refused); err == nil {
			t.Errorf("%v is claimed", refused)
		}
	}
	late := resource.ConsumerID(uuid.NewString())
	h.claim(late, resource.Allocation{h.root: {"MEMORY_MB": 64}, node0: {numa.SharedCPUs: 1, numa.SmallMemory: 64}})

	h.run(false) // the late claim has no guest yet
	for i, consumer := range []resource.ConsumerID{pinned, shared} {
		if got := h.held(consumer); !got.Equal(before[i]) {
			t.Errorf("%s has %v, before %v", consumer, got, before[i])
		}
	}
	if got := h.held(late); !got.Equal(resource.Allocation{h.root: {"MEMORY_MB": 64}}) {
		t.Errorf("the late claim has %v", got)
	}
	if tree, err := h.placement.Tree(t.Context(), h.root); err != nil || len(tree.Providers) != 1 {
		t.Errorf("the tree is %+v, %v", tree, err)
	}
}

// newNUMAHost returns a host whose agent uses this Placement, and a compute service without servers.
func newNUMAHost(t *testing.T, of *server) *numaHost {
	t.Helper()
	machine, err := sysfs.Sample()
	must(t, err)
	dir := t.TempDir()
	guests, err := fake.New(filepath.Join(dir, "guests"), hypervisor.Capacity{VCPUs: 4, MemoryMB: 262144, DiskGB: 100})
	must(t, err)
	// uwsgi closes connections without notice, and PUT is not repeated on another one
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	h := &numaHost{t: t, placement: placement.NewClient("http://"+of.Addr, client, "admin")}
	conf := filepath.Join(dir, "compute.conf")
	must(t, os.WriteFile(conf, []byte("[api]\nauth_strategy = noauth2\n"), 0o600))
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	config, err := settings.Read(log, conf)
	must(t, err)
	compute, err := app.OpenCompute(t.Context(), "sqlite:///"+filepath.Join(dir, "compute.db"), h.placement, config, log)
	must(t, err)
	t.Cleanup(func() { must(t, compute.Close()) })
	h.options = loop.Options{Host: "cmp1", Facts: sysfs.Source{FS: machine, Name: "the sample"}, Placement: h.placement,
		Compute: host.Client{REST: &rest.Client{Base: "http://compute", HTTP: rest.InMemory(compute.Handler),
			Headers: map[string]string{"X-Auth-Token": "admin"}}},
		Hypervisor: guests, Dir: filepath.Join(dir, "journal"), Log: log,
		LockID: func(dir string) string { return dir }}
	h.options.CPUs = agentstate.CPUs{Shared: []int{0, 2}, Dedicated: []int{1, 3}, CPURatio: 4}
	return h
}

// run runs an agent until its report says that NUMA nodes are in Placement, or that they are not.
func (h *numaHost) run(nodes bool) {
	h.t.Helper()
	h.options.CPUs.InPlacement = nodes
	agent, err := loop.New(h.options)
	must(h.t, err)
	ctx, cancel := context.WithTimeout(h.t.Context(), testenv.Patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	for done := false; !done; {
		select {
		case err := <-ended:
			h.t.Fatalf("the agent has ended: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		report := agent.Report()
		if report.Provider == "" || report.NodesInPlacement != nodes {
			continue
		}
		h.root = provider.ID(report.Provider)
		tree, err := h.placement.Tree(ctx, h.root)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		must(h.t, err)
		root, _ := tree.Root()
		done = nodes && len(tree.Providers) == 3 || !nodes && len(tree.Providers) == 1 && root.Inventories["PCPU"].Total == 2
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		h.t.Fatal(err)
	}
}

// journal writes entries to the journal, as the agent does when it claims.
func (h *numaHost) journal(entries ...journal.Entry) {
	h.t.Helper()
	j, err := journal.Open(h.options.Dir)
	must(h.t, err)
	must(h.t, j.Write(entries...))
	must(h.t, j.Close())
}

// node returns the id of the provider of a node.
func (h *numaHost) node(n int) provider.ID {
	return provider.IDFromName(h.root, numa.ProviderName("cmp1", n))
}

func (h *numaHost) put(consumer resource.ConsumerID, a resource.Allocation) error {
	return h.placement.PutAllocation(h.t.Context(), consumer, placement.ConsumerAllocation{Allocation: a,
		Project: uuid.NewString(), User: uuid.NewString(), ConsumerType: "INSTANCE"})
}

func (h *numaHost) claim(consumer resource.ConsumerID, a resource.Allocation) {
	h.t.Helper()
	must(h.t, h.put(consumer, a))
}

func (h *numaHost) held(consumer resource.ConsumerID) resource.Allocation {
	h.t.Helper()
	has, err := h.placement.Allocation(h.t.Context(), consumer)
	must(h.t, err)
	return has.Allocation
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
