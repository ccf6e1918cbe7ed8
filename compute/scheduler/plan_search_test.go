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
	s := lifecycle.Server{ID: "s", Ask: resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 12}}}}}
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
