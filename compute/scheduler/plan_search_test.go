package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// idleHosts is a Store of hosts without servers, and the other parts of a scheduler as they are if nothing is wrong.
type idleHosts struct {
	Store
	hosts map[provider.ID]schedule.Host
}

func (s idleHosts) Roots(context.Context) (list []schedule.HostRoot, err error) {
	for root, h := range s.hosts {
		list = append(list, schedule.HostRoot{Name: h.Name, Root: root})
	}
	return list, nil
}

func (s idleHosts) Reports(_ context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error) {
	out := map[provider.ID]schedule.Host{}
	for _, root := range roots {
		out[root] = s.hosts[root]
	}
	return out, nil
}

func (s idleHosts) Host(_ context.Context, name string) (schedule.Host, error) {
	return s.hosts[provider.ID("root-"+name)], nil
}

func (idleHosts) Dead(context.Context) ([]string, error)                       { return nil, nil }
func (idleHosts) DisabledHosts(context.Context) (map[string]string, error)     { return nil, nil }
func (idleHosts) Missing(schedule.Host) (missing, fresh bool)                  { return false, true }
func (idleHosts) SinceReport(string) time.Duration                             { return 0 }
func (idleHosts) StartFailure(string) (none presence.StartFailure)             { return none }
func (idleHosts) NotFollowing(string) string                                   { return "" }
func (idleHosts) AwaitsFirst() bool                                            { return false }
func (idleHosts) Recent(time.Time) map[string]bool                             { return nil }
func (idleHosts) AuditRoot(context.Context, string, provider.ID) (bool, error) { return false, nil }
func (idleHosts) GroupOf(context.Context, lifecycle.Server) (*schedule.ServerGroup, error) {
	return nil, nil
}

func (idleHosts) HostAggregates(context.Context) (map[string][]schedule.Aggregate, error) {
	return nil, nil
}

// scheduler returns a scheduler of the hosts.
func (s idleHosts) scheduler(p *placementtest.Placement) *Scheduler {
	return New(s, p.Client(nil), Options{Audits: s, Agents: s, Failures: s, Now: time.Now, Silence: time.Minute})
}

// hardHost is a host with different numbers of devices on each of its nodes, on which a server with sets of two devices
// of one node fits, after a long search.
func hardHost(name string) schedule.Host {
	h := schedule.Host{Name: name, Provider: provider.ID("root-" + name)}
	rng := rand.New(rand.NewPCG(9, 1))
	for n := range 12 {
		for kind, product := range []string{"1", "2", "3"} {
			for i := range rng.IntN(6) {
				at := pci.Address{Bus: uint8(n), Slot: uint8(i), Func: uint8(kind)}
				d := pci.Offered{State: pci.Available, ResourceClass: pci.ClassFor("8086", product),
					Device: pci.Device{Address: at, Type: pci.Plain, Vendor: "8086", Product: product, NUMANode: n}}
				d.Properties = pci.Properties{"board": {fmt.Sprint(n)}}
				h.Devices = append(h.Devices, d)
			}
		}
		cell := numa.Cell{ID: n, Socket: n / 2, MemoryMB: 4096}
		for i := range 8 {
			cell.Dedicated = append(cell.Dedicated, 10*n+i)
		}
		h.Cells = append(h.Cells, cell)
		h.Nodes = append(h.Nodes, numa.Node{ID: n, CPUs: true, Socket: n / 2})
	}
	return h
}

// hardServer is a server that fits on a hardHost.
func hardServer() lifecycle.Server {
	s := lifecycle.Server{ID: "s"}
	s.Ask.Groups = []resource.Group{{Resources: resource.Amounts{"VCPU": 12}}}
	for i := range 6 {
		s.Topology = append(s.Topology, numa.GuestCell{VCPUs: []int{2 * i, 2*i + 1}, Dedicated: []int{2 * i, 2*i + 1},
			MemoryMB: 512})
	}
	for i, product := range []string{"1", "2", "3"} {
		r := pci.Request{ID: string(rune('R' + i)), Alias: "a", Count: 16, Policy: pci.Legacy,
			Requirement: pci.Requirement{Vendor: "8086", Product: product, Type: pci.Plain}}
		if i < 2 {
			r.Match = &pci.Match{Set: 1, Family: "board", Times: 16}
		}
		s.Requests = append(s.Requests, r)
	}
	return s
}

// A server gets the only host with room in Placement, although only a long search finds that it fits there, and on
// other hosts without room.
func TestLongSearchContinuesAfterARefusalOfPlacement(t *testing.T) {
	store, p := idleHosts{hosts: map[provider.ID]schedule.Host{}}, placementtest.New(nil)
	for i, name := range []string{"h1", "h2", "h3"} {
		h := hardHost(name)
		store.hosts[h.Provider] = h
		p.SetProvider(provider.Provider{ID: h.Provider, Name: name, Root: h.Provider,
			Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8 + 2*i)}})
	}
	event, err := store.scheduler(p).Choose(t.Context(), hardServer(), Ports{})
	if chosen, is := event.(lifecycle.Chosen); err != nil || !is || chosen.Choices[0].Host != "h3" {
		t.Errorf("%+v, %v", event, err)
	}
}

// A server with dedicated CPUs and a trait gets a host whose disk space is of a sharing provider, which does not have
// the trait. Placement has the CPUs on the provider of a node, which is planned, and is asked for the rest.
func TestDedicatedCPUsBesideASharedDisk(t *testing.T) {
	h := schedule.Host{Name: "h1", Provider: "root-h1", NUMA: schedule.NUMA{NodesInPlacement: true,
		Cells: []numa.Cell{{MemoryMB: 4096, Dedicated: []int{0, 1, 2, 3}}}, Nodes: numa.Topology{{CPUs: true}}}}
	store, p := idleHosts{hosts: map[provider.ID]schedule.Host{h.Provider: h}}, placementtest.New(nil)
	aggregate := []resource.AggregateID{"aaaaaaaa-0000-4000-8000-000000000001"}
	p.SetProvider(provider.Provider{ID: "nfs", Name: "nfs", Root: "nfs", Aggregates: aggregate,
		Traits:      []resource.Trait{"MISC_SHARES_VIA_AGGREGATE"},
		Inventories: map[resource.Class]resource.Inventory{"DISK_GB": resource.Whole(100)}})
	p.SetProvider(provider.Provider{ID: h.Provider, Name: h.Name, Root: h.Provider, Aggregates: aggregate,
		Traits:      []resource.Trait{"CUSTOM_FAST"},
		Inventories: map[resource.Class]resource.Inventory{"MEMORY_MB": resource.Whole(4096)}})
	p.SetProvider(provider.Provider{ID: h.NodeProvider(0), Name: "h1_NUMA0", Root: h.Provider, Parent: h.Provider,
		Inventories: map[resource.Class]resource.Inventory{numa.DedicatedCPUs: resource.Whole(4),
			numa.SmallMemory: resource.Whole(4096)}})
	for _, target := range []string{"", "h1"} {
		s := lifecycle.Server{ID: "s", Target: target, Ask: resource.Ask{Groups: []resource.Group{{
			Resources: resource.Amounts{numa.DedicatedCPUs: 2, "MEMORY_MB": 512, "DISK_GB": 20},
			Required:  [][]resource.Trait{{"CUSTOM_FAST"}}}}},
			Topology: []numa.GuestCell{{VCPUs: []int{0, 1}, Dedicated: []int{0, 1}, MemoryMB: 512}}}
		event, err := store.scheduler(p).Choose(t.Context(), s, Ports{})
		chosen, is := event.(lifecycle.Chosen)
		if err != nil || !is || chosen.Choices[0].Allocation["nfs"]["DISK_GB"] != 20 {
			t.Errorf("on %q: %+v, %v", target, event, err)
		}
	}
}
