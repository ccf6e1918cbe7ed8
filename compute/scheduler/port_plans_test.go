package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// cutPlacement is a Placement that returns a limited number of candidates.
type cutPlacement struct {
	Placement
	limit int
}

func (p cutPlacement) Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	ask.Limit = 0
	got, err := p.Placement.Candidates(ctx, ask)
	if p.limit > 0 {
		got.Limit, got.Complete = p.limit, len(got.List) < p.limit
		got.List = got.List[:min(len(got.List), p.limit)]
	}
	return got, err
}

// portsCloud is a host with NICs on its nodes, and servers of one kind with guaranteed ports.
type portsCloud struct {
	idleHosts
	placement *placementtest.Placement
	server    lifecycle.Server
	ask       resource.Ask
}

const portsHost provider.ID = "root-h1"

func randomPortsCloud(rng *rand.Rand) *portsCloud {
	c := &portsCloud{placement: placementtest.New(nil)}
	h := schedule.Host{Name: "h1", Provider: portsHost, InPlacement: true}
	for n := range 2 {
		cell := numa.Cell{ID: n, Socket: n, MemoryMB: 4096}
		for i := range rng.IntN(7) {
			cell.Dedicated = append(cell.Dedicated, 10*n+i)
		}
		h.Cells, h.Nodes = append(h.Cells, cell), append(h.Nodes, numa.Node{ID: n, CPUs: true, Socket: n})
	}
	c.add(portsHost, "", resource.Amounts{"VCPU": 100})
	for n := range 2 + rng.IntN(3) {
		c.nic(&h, n, rng)
	}
	c.hosts = map[provider.ID]schedule.Host{portsHost: h}
	var ports []portrequest.Port
	for n := range 1 + rng.IntN(3) {
		id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)
		p := portrequest.Port{ID: id, VNICType: "direct", PhysicalNetworks: []string{"a"},
			NUMAPolicy: []string{"required", "preferred", "socket"}[rng.IntN(3)]}
		if rng.IntN(4) > 0 {
			p.Groups = []portrequest.Group{{ID: "bw-" + id,
				Resources: resource.Amounts{bandwidth.EgressBandwidth: 1 + rng.IntN(3)}}}
		}
		ports = append(ports, p)
	}
	request, err := portrequest.Make(ports, portrequest.Options{DevicesInPlacement: true})
	if err == nil {
		c.ask, err = portrequest.Add(resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}},
			request)
	}
	if err != nil {
		panic(err)
	}
	c.server = lifecycle.Server{Requests: request.Devices, Ask: c.ask, Topology: []numa.GuestCell{{VCPUs: []int{0},
		Dedicated: []int{0}, MemoryMB: 64}}}
	return c
}

// nic adds a NIC with VFs for ports.
func (c *portsCloud) nic(h *schedule.Host, n int, rng *rand.Rand) {
	network, vfs, node := "a", 1+rng.IntN(4), rng.IntN(2)
	bw, on := provider.ID(fmt.Sprint("bw", n)), provider.ID(fmt.Sprint("vfs", n))
	traits := []resource.Trait{bandwidth.PhysnetTrait(network), bandwidth.VNICTrait("direct")}
	c.add(bw, portsHost, resource.Amounts{bandwidth.EgressBandwidth: 1 + rng.IntN(8)}, traits...)
	c.add(on, bw, resource.Amounts{pci.PortVF: vfs}, traits...)
	for i := range vfs {
		pf := pci.Address{Bus: uint8(n)}
		h.Devices = append(h.Devices, pci.Offered{State: pci.Available, ResourceClass: pci.PortVF, Provider: on,
			ForPorts: true, PortTags: pci.PortTags{PhysicalNetwork: &network},
			Device: pci.Device{Address: pci.Address{Bus: uint8(n), Func: uint8(1 + i)}, Type: pci.Virtual, Parent: &pf,
				NUMANode: node}})
	}
}

func (c *portsCloud) add(id, parent provider.ID, total resource.Amounts, traits ...resource.Trait) {
	p := provider.Provider{ID: id, Name: string(id), Root: portsHost, Parent: parent, Traits: traits,
		Inventories: map[resource.Class]resource.Inventory{}}
	for class, n := range total {
		p.Inventories[class] = resource.Whole(n)
	}
	c.placement.SetProvider(p)
}

func (c *portsCloud) scheduler(limit int) Scheduler {
	s := c.idleHosts.scheduler(c.placement)
	s.placement = cutPlacement{s.placement, limit}
	return *s
}

// headroom returns how many servers fit, by plannedHeadroom.
func (c *portsCloud) headroom(t *testing.T, limit int) HostHeadroom {
	known := []schedule.Host{c.hosts[portsHost]}
	list, _, err := c.scheduler(limit).plannedHeadroom(t.Context(), c.server, c.ask, known)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return HostHeadroom{Exact: true}
	}
	return list[0]
}

// fill creates servers until one does not fit, and returns their number.
func (c *portsCloud) fill(t *testing.T, limit int) (n int) {
	for ; ; n++ {
		s := c.server
		s.ID = fmt.Sprint("s", n)
		event, err := c.scheduler(limit).planServer(t.Context(), s, c.ask)
		if err != nil {
			t.Fatal(err)
		}
		chosen, is := event.(lifecycle.Chosen)
		if !is {
			return n
		}
		choice := chosen.Choices[0]
		if err := c.placement.PutAllocation(t.Context(), resource.ConsumerID(s.ID), placement.ConsumerAllocation{
			Allocation: choice.Allocation, Project: "p", User: "u", ConsumerType: "INSTANCE"}); err != nil {
			t.Fatalf("the claim of %+v: %v", choice, err)
		}
		requests := slices.Clone(s.Requests)
		for i, r := range requests {
			requests[i].Providers = choice.Mappings[r.GroupSuffix(0)]
		}
		c.hosts[portsHost] = c.hosts[portsHost].WithGuest(schedule.Guest{ID: s.ID, Requests: requests,
			Cells: numa.WithChoices(s.Topology, choice.Cells)})
	}
}

// As many servers with guaranteed ports can be created as the headroom says, also if Placement returns few candidates
// of many, and the first of them fits if and only if it fits with all candidates.
func TestHeadroomOfGuaranteedPorts(t *testing.T) {
	cut, servers := 0, 0
	for seed := range uint64(300) {
		limit := []int{0, 1, 3}[seed%3]
		c := randomPortsCloud(rand.New(rand.NewPCG(seed, 3)))
		whole, h := c.headroom(t, 0), c.headroom(t, limit)
		if (whole.Fits > 0) != (h.Fits > 0) {
			t.Fatalf("case %d: %+v with all candidates, %+v with %d", seed, whole, h, limit)
		}
		fits := c.fill(t, limit)
		if fits != h.Fits || !h.Exact && limit != 1 { // 1: there may be another candidate for the rest, too
			t.Errorf("case %d, %d candidates: %d servers, headroom %+v", seed, limit, fits, h)
		}
		if servers += fits; whole.Fits > 0 && limit > 0 {
			cut++
		}
	}
	if cut < 100 || servers < 500 {
		t.Errorf("%d cases with few candidates, %d servers: too few", cut, servers)
	}
}
