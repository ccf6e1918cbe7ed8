package app

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// randomHost is a random host with guests that the agent has placed on it one after the other.
type randomHost struct {
	rng       *rand.Rand
	set       device.Set
	cells     []numa.Cell // with what the guests use
	empty     []numa.Cell // without
	room      numa.Host   // limits and strategy
	reporting bool        // [pci] report_in_placement
	networks  bool        // [berth] report_network_devices
	guests    []schedule.Guest
}

// If nothing changes in between, the agent can claim whatever the scheduler accepts, and could not claim what the
// scheduler rejects. Both run their production code, each on its own data: the agent on its states, the scheduler on a
// report, which may be older than the last guests.
func TestSchedulerAndAgentAgree(t *testing.T) {
	t.Parallel()
	const worlds, servers = 1500, 5
	fits, asked, late, ports := 0, 0, 0, 0 // ports: of the servers that fit
	for seed := range uint64(worlds) {
		p := newRandomHost(rand.New(rand.NewPCG(seed, 9)))
		report := p.report()
		for n := range servers {
			if p.rng.IntN(2) == 0 {
				report = p.report()
			}
			id := fmt.Sprint("s", n)
			requests, mappings, parts := p.request(id)
			host := report
			host.Guests = p.guests
			pic := schedule.Input{Hosts: map[provider.ID]schedule.Host{"root": host}, Cells: parts, Pack: p.room.Pack,
				Now: host.Seen, Silence: schedule.Silence,
				Candidates: []schedule.Candidate{{Root: "root", Mappings: mappings}}}
			choices, refusals := schedule.Choose(pic, requests, seed)
			for i := range requests {
				requests[i].Providers = chosen(requests[i], mappings)
			}
			set, picked, placed, refusal := p.set.Place(resource.ConsumerID(id), requests, parts, nil, p.host())
			asked++
			if (len(choices) == 1) != (refusal == "") {
				t.Fatalf("world %d, server %d: the scheduler says %q, the agent %q\nrequests %+v\ncells %+v for %+v\ndevices %+v",
					seed, n, schedule.Summarise(refusals), refusal,
					requests, p.cells, parts, p.set.Entries())
			}
			if refusal != "" {
				continue
			}
			fits++
			if slices.ContainsFunc(requests, func(r pci.Request) bool { return r.Port != nil }) {
				ports++
			}
			if len(report.Counted) < len(p.guests) {
				late++
			}
			p.place(id, requests, set, picked, parts, placed)
		}
	}
	if fits < asked/10 || fits > asked*9/10 || late < asked/50 || ports < asked/100 {
		t.Errorf("of %d servers %d fit, %d of them on an old report, %d with ports: the worlds show nothing", asked, fits,
			late, ports)
	}
}

func newRandomHost(rng *rand.Rand) *randomHost {
	p := &randomHost{rng: rng, reporting: rng.IntN(4) > 0, networks: rng.IntN(2) == 0,
		room: numa.Host{Pack: rng.IntN(2) == 0,
			Limits: numa.Limits{CPU: float64(1 + rng.IntN(3)), Memory: 1 + rng.Float64()}}}
	var offers []device.Offer
	add := func(d pci.Device) {
		d.Vendor, d.NUMANode = "8086", rng.IntN(6)-1
		o := device.Offer{Offered: pci.Offered{Device: d, ResourceClass: pci.ClassFor(d.Vendor, d.Product),
			LiveMigratable: []pci.Flag{pci.Unset, pci.Unset, pci.Yes, pci.No}[rng.IntN(4)]}}
		switch rng.IntN(12) {
		case 0:
			o.RemoteManaged = true
		case 1:
			o.Spent = d.Type == pci.Plain
		case 2, 3, 4:
			network := []string{"", "a", "b"}[rng.IntN(3)]
			o.ForPorts, o.PhysicalNetwork = p.reporting, &network
			o.Trusted = rng.IntN(2) == 0
		}
		forPorts := o.RemoteManaged || o.PhysicalNetwork != nil
		if forPorts && p.networks {
			o.ResourceClass = pci.PortClass(d)
		}
		if p.reporting && (p.networks || !forPorts) {
			o.Provider = provider.ID("p-" + d.Holder().String())
		}
		offers = append(offers, o)
	}
	for bus := range uint8(1 + rng.IntN(4)) {
		at := pci.Address{Bus: bus}
		if rng.IntN(3) == 0 {
			add(pci.Device{Address: at, Product: "1533", Type: pci.Plain})
			continue
		}
		vfs := rng.IntN(4)
		if vfs == 0 || !p.reporting && rng.IntN(2) == 0 { // a PF together with its VFs only while nothing is reported
			add(pci.Device{Address: at, Product: "1528", Type: pci.Physical})
		}
		for i := range vfs {
			kind := pci.Virtual
			if rng.IntN(8) == 0 {
				kind = pci.VDPA
			}
			add(pci.Device{Address: pci.Address{Bus: bus, Func: uint8(i + 1)}, Product: "1515", Type: kind, Parent: &at})
		}
	}
	p.set = device.New(offers)
	for id := range 1 + rng.IntN(3) {
		c := numa.Cell{ID: id, Socket: rng.IntN(3) - 1, MemoryMB: 2048}
		for thread := range 2 + rng.IntN(4) {
			c.CPUs, c.Dedicated = append(c.CPUs, id*16+thread), append(c.Dedicated, id*16+8+thread)
			if n := len(c.Dedicated); n%2 == 0 && rng.IntN(3) > 0 {
				c.Siblings = append(c.Siblings, []int{c.Dedicated[n-2], c.Dedicated[n-1]})
			}
		}
		if rng.IntN(2) == 0 {
			c.Pages = []numa.Pages{{SizeKB: 2048, Total: 64 * (1 + rng.IntN(4))}}
		}
		p.cells = append(p.cells, c)
	}
	p.empty = slices.Clone(p.cells)
	p.room.Nodes = nodesWithMemory(rng, p.cells)
	return p
}

// nodesWithMemory returns the nodes of the cells, and up to two nodes of memory only, with random distances.
func nodesWithMemory(rng *rand.Rand, cells []numa.Cell) (nodes numa.Topology) {
	for _, c := range cells {
		nodes = append(nodes, numa.Node{ID: c.ID, CPUs: true, Socket: c.Socket})
	}
	for range rng.IntN(3) {
		n := numa.Node{ID: len(nodes), Socket: numa.NoSocket, Distances: map[int]int{len(nodes): 10}}
		for _, c := range cells {
			n.Distances[c.ID] = 40 * (1 + rng.IntN(2))
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// report returns the current report of the agent, as compute stores it.
func (p *randomHost) report() schedule.Host {
	h := schedule.Host{Name: "h", Provider: "root", InPlacement: p.reporting, Seen: time.Unix(0, 0),
		NUMA: schedule.NUMA{Cells: p.empty, Nodes: p.room.Nodes, Limits: p.room.Limits}}
	for _, e := range p.set.Entries() {
		h.Devices = append(h.Devices, e.Offered)
	}
	for _, g := range p.guests {
		h.Counted = append(h.Counted, schedule.CountedGuest{ID: g.ID, Cells: g.Cells, Placed: g.Placed})
	}
	return h
}

// request returns a random server: its requests, their providers, and its NUMA cells.
func (p *randomHost) request(
	id string,
) (requests []pci.Request, mappings map[string][]provider.ID, parts []numa.GuestCell) {
	products := map[pci.Type]string{pci.Plain: "1533", pci.Physical: "1528", pci.Virtual: "1515"}
	entries := p.set.Entries()
	mappings = map[string][]provider.ID{"": {"root"}}
	inPlacement := p.reporting && p.rng.IntN(3) > 0
	for n := range p.rng.IntN(3) {
		kind := []pci.Type{pci.Plain, pci.Physical, pci.Virtual, pci.Virtual}[p.rng.IntN(4)]
		r := pci.Request{ID: fmt.Sprint(id, "-", n), Alias: "a", Count: 1 + p.rng.IntN(2),
			Requirement: pci.Requirement{Class: pci.ClassFor("8086", products[kind])},
			Policy:      []pci.NUMAPolicy{pci.Required, pci.Legacy, pci.Preferred, pci.Socket}[p.rng.IntN(4)]}
		if p.rng.IntN(3) > 0 {
			r.Requirement.Vendor, r.Requirement.Product, r.Requirement.Type = "8086", products[kind], kind
		}
		if p.rng.IntN(5) == 0 {
			r.Requirement.LiveMigratable = pci.Yes
		}
		if p.rng.IntN(6) == 0 {
			r.Alternatives = []pci.Requirement{{Vendor: "8086", Product: "1515", Class: r.Requirement.Class,
				Type: r.Requirement.Type}}
		}
		if p.rng.IntN(4) == 0 {
			r = p.portRequest(r.ID, r.Policy)
		}
		for i := range r.Count {
			if e := entries[p.rng.IntN(len(entries))]; inPlacement {
				mappings[r.GroupSuffix(i)] = []provider.ID{e.Provider}
				if e.Provider == "" {
					mappings[r.GroupSuffix(i)] = []provider.ID{"elsewhere"}
				}
			}
		}
		requests = append(requests, r)
	}
	for range p.rng.IntN(3) {
		part := numa.GuestCell{MemoryMB: 256, VCPUs: []int{2 * len(parts), 2*len(parts) + 1}}
		if p.rng.IntN(2) == 0 {
			part.Dedicated = part.VCPUs
			part.Threads = []numa.Threads{"", numa.Prefer, numa.Isolate, numa.Require}[p.rng.IntN(4)]
			part.Emulator = p.rng.IntN(4) / 3
		}
		part.PageKB = []int{numa.SmallPages, numa.SmallPages, numa.SmallPages, numa.LargePages, numa.AnyPages, numa.OwnPages,
			2048}[p.rng.IntN(7)]
		parts = append(parts, part)
	}
	return requests, mappings, parts
}

// portRequest returns the request of a random port; most ports fit one of the devices for ports.
func (p *randomHost) portRequest(id string, policy pci.NUMAPolicy) pci.Request {
	needs := pci.PortNeeds{ID: "port-" + id, PhysicalNetworks: [][]string{{"a"}, {"a", "b"}, {""}}[p.rng.IntN(3)],
		RemoteManaged: p.rng.IntN(4) == 0, Trusted: p.rng.IntN(4) == 0}
	class := []resource.Class{pci.PortVF, pci.PortVF, pci.PortNIC, pci.PortVDPA}[p.rng.IntN(4)]
	for _, e := range p.set.Entries() {
		if p.rng.IntN(2) == 0 && (e.RemoteManaged || e.PortTags.PhysicalNetwork != nil) {
			class, needs.RemoteManaged = pci.PortClass(e.Device), e.RemoteManaged
			if name := e.PortTags.PhysicalNetwork; name != nil && p.rng.IntN(4) > 0 {
				needs.PhysicalNetworks = []string{"b", *name}
			}
		}
	}
	return pci.Request{ID: id, Count: 1, Policy: policy, Requirement: pci.Requirement{Class: class}, Port: &needs}
}

// chosen returns what a claim writes into a request: a provider for each device, or nothing.
func chosen(r pci.Request, mappings map[string][]provider.ID) (list []provider.ID) {
	for i := range r.Count {
		list = append(list, mappings[r.GroupSuffix(i)]...)
	}
	return list
}

// place adds the guest with its devices and cells to the host and to the report.
func (p *randomHost) place(id string, requests []pci.Request, set device.Set, picked []device.Claim,
	parts []numa.GuestCell,
	placed []numa.Placed) {
	g := schedule.Guest{ID: id, Requests: requests, Cells: parts, Placed: placed}
	for _, c := range picked {
		g.Devices = append(g.Devices, schedule.Picked{RequestID: c.RequestID, Address: c.Device.Address.String(),
			Provider: c.Provider})
	}
	p.set, p.cells, p.guests = set, numa.Use(p.cells, parts, placed), append(slices.Clone(p.guests), g)
}

// host returns the host with what its guests use.
func (p *randomHost) host() numa.Host {
	h := p.room
	h.Cells = p.cells
	return h
}
