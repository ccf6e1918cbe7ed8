package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// device returns a free VF on a provider; n determines its address.
func device(n int, on provider.ID, product string) pci.Offered {
	return pci.Offered{
		Device: pci.Device{Address: pci.Address{Bus: 0x80, Slot: uint8(n / 8), Func: uint8(n % 8)}, Vendor: "8086",
			Product: product, Type: pci.Virtual},
		Provider: on, State: pci.Available,
	}
}

func devices(on provider.ID, product string, first, count int) (list []pci.Offered) {
	for i := range count {
		list = append(list, device(first+i, on, product))
	}
	return list
}

func host(name string, devices ...pci.Offered) schedule.Host {
	return schedule.Host{Name: name, Provider: provider.ID("root-" + name), Seen: noon, Devices: devices}
}

func hosts(list ...schedule.Host) map[provider.ID]schedule.Host {
	out := map[provider.ID]schedule.Host{}
	for _, h := range list {
		out[h.Provider] = h
	}
	return out
}

// candidate returns a candidate that maps the groups and so on to providers.
func candidate(hostName string, providers ...provider.ID) schedule.Candidate {
	c := schedule.Candidate{Root: provider.ID("root-" + hostName),
		Mappings: map[string][]provider.ID{"": {provider.ID("root-" + hostName)}}}
	for i, p := range providers {
		c.Mappings[fmt.Sprintf("R-%d", i)] = []provider.ID{p}
	}
	return c
}

func request(product string, count int) pci.Request {
	return pci.Request{ID: "R", Alias: "nic", Count: count, Requirement: pci.Requirement{Vendor: "8086", Product: product,
		Type: pci.Virtual}}
}

// testDevice returns a free device on its own bus; on is its provider, node its NUMA node.
func testDevice(bus uint8, kind pci.Type, product string, on provider.ID, node int) pci.Offered {
	return pci.Offered{Device: pci.Device{Address: pci.Address{Bus: bus}, Vendor: "8086", Product: product, Type: kind,
		NUMANode: node},
		Provider: on, State: pci.Available, ResourceClass: pci.ClassFor("8086", product)}
}

// card returns the VFs of a PF, all on one provider, and the PF if pf is set.
func card(bus uint8, on provider.ID, node int, pf bool, vfs int) (list []pci.Offered) {
	parent := pci.Address{Bus: bus}
	if pf {
		list = append(list, testDevice(bus, pci.Physical, "1528", on, node))
	}
	for i := range vfs {
		d := testDevice(bus, pci.Virtual, "1515", on, node)
		d.Address.Slot, d.Address.Func, d.Parent = uint8(1+i/8), uint8(i%8), &parent
		list = append(list, d)
	}
	return list
}

// requestFor returns a request for count devices of a product.
func requestFor(count int, kind pci.Type, product string) pci.Request {
	return pci.Request{Alias: "a", Count: count, Policy: pci.Legacy,
		Requirement: pci.Requirement{Vendor: "8086", Product: product, Type: kind, Class: pci.ClassFor("8086", product)}}
}

// withPolicy returns the request with a NUMA policy.
func withPolicy(p pci.NUMAPolicy, r pci.Request) pci.Request { r.Policy = p; return r }

// onProvider returns the request with its provider.
func onProvider(r pci.Request, on provider.ID) pci.Request { r.Providers = []provider.ID{on}; return r }

// orRequirement returns the request with an alternative requirement.
func orRequirement(r pci.Request, w pci.Requirement) pci.Request {
	r.Alternatives = []pci.Requirement{w}
	return r
}

func migratable(r pci.Request) pci.Request { r.Requirement.LiveMigratable = pci.Yes; return r }

func notMigratable(r pci.Request) pci.Request { r.Requirement.LiveMigratable = pci.No; return r }

// question is what a server needs of a host.
type question struct {
	requests []pci.Request
	on       []provider.ID // the provider of each device, over all requests; nil: without groups
	cells    []numa.GuestCell
}

// judgeOn returns the refusal of a host and its filter; both are empty if the server fits. The request ids are R, S, T
// and so on.
func (a question) judgeOn(h schedule.Host) (reason string, filter schedule.Filter) {
	c := schedule.Candidate{Root: h.Provider, Mappings: map[string][]provider.ID{"": {h.Provider}}}
	requests := slices.Clone(a.requests)
	next := 0
	for n := range requests {
		requests[n].ID = string(rune('R' + n))
		for i := range requests[n].Count {
			if a.on != nil {
				c.Mappings[requests[n].GroupSuffix(i)] = []provider.ID{a.on[next]}
				next++
			}
		}
	}
	p := schedule.Input{Candidates: []schedule.Candidate{c}, Hosts: hosts(h), Cells: a.cells, Now: noon,
		Silence: schedule.Silence}
	choices, refusals := schedule.Choose(p, requests, 1)
	if len(choices)+len(refusals) != 1 {
		panic("one candidate must have one result")
	}
	if len(refusals) == 1 {
		return refusals[0].Reason, refusals[0].Filter
	}
	return "", ""
}

// check checks that the host refuses for a reason with this text in this filter, or accepts if both are empty.
func check(t *testing.T, a question, h schedule.Host, wantText string, filter schedule.Filter) {
	t.Helper()
	reason, at := a.judgeOn(h)
	if (reason == "") != (wantText == "") || !strings.Contains(reason, wantText) || at != filter {
		t.Errorf("refused %q at %q, want %q at %q", reason, at, wantText, filter)
	}
}

// node returns a NUMA node with a number of threads for dedicated CPUs.
func node(id, socket, threads int) numa.Cell {
	c := numa.Cell{ID: id, Socket: socket, MemoryMB: 4096}
	for i := range threads {
		c.Dedicated = append(c.Dedicated, id*10+i)
	}
	return c
}

// guest returns a number of NUMA cells with two dedicated CPUs each.
func guest(cells int) (parts []numa.GuestCell) {
	for i := range cells {
		parts = append(parts, numa.GuestCell{VCPUs: []int{2 * i, 2*i + 1}, Dedicated: []int{2 * i, 2*i + 1}, MemoryMB: 512})
	}
	return parts
}

// withCells returns a host with these cells for guests. The nodes of its kernel are those of the cells and, with CPUs
// on sockets of their own, those of its devices.
func withCells(h schedule.Host, cells ...numa.Cell) schedule.Host {
	h.Cells, h.Nodes = cells, nil
	for _, c := range cells {
		h.Nodes = append(h.Nodes, numa.Node{ID: c.ID, CPUs: true, Socket: c.Socket})
	}
	for _, d := range h.Devices {
		n := numa.Node{ID: d.NUMANode, CPUs: true, Socket: 100 + d.NUMANode}
		if n.ID != pci.NoNUMA && !slices.ContainsFunc(h.Nodes, func(of numa.Node) bool { return of.ID == n.ID }) {
			h.Nodes = append(h.Nodes, n)
		}
	}
	slices.SortFunc(h.Nodes, func(a, b numa.Node) int { return a.ID - b.ID })
	return h
}
