package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// testDevice returns a free device on its own bus; on is its provider, node its NUMA node.
func testDevice(bus uint8, kind pci.Type, product string, on provider.ID, node int) schedule.Device {
	return schedule.Device{Device: pci.Device{Address: pci.Address{Bus: bus}, Vendor: "8086", Product: product, Type: kind,
		NUMANode: node},
		Provider: on, State: schedule.Available, ResourceClass: pci.ClassFor("8086", product)}
}

// card returns the VFs of a PF, all on one provider, and the PF if pf is set.
func card(bus uint8, on provider.ID, node int, pf bool, vfs int) (list []schedule.Device) {
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

// TestDeviceFilter checks which requests the devices of a host can fulfil, without NUMA.
func TestDeviceFilter(t *testing.T) {
	three := slices.Concat(card(1, "pf1", 0, true, 4), card(2, "pf2", 0, true, 4), card(3, "pf3", 0, true, 0))
	vfs := slices.Concat(card(1, "pf1", 0, false, 2), card(2, "pf2", 0, false, 2))
	plain := []schedule.Device{testDevice(8, pci.Plain, "1533", "p8", 0), testDevice(9, pci.Plain, "1533", "p9", 0)}
	change := func(list []schedule.Device, n int, how func(*schedule.Device)) []schedule.Device {
		list = slices.Clone(list)
		how(&list[n])
		return list
	}
	class := pci.Request{Alias: "c", Count: 1, Requirement: pci.Requirement{Class: "CUSTOM_X"}}
	remote := func(d *schedule.Device) { d.RemoteManaged = true }
	physnet := func(d *schedule.Device) { d.ForPorts = true }
	vf, pf, one := requestFor(1, pci.Virtual, "1515"), requestFor(1, pci.Physical, "1528"), requestFor(1, "", "1533")
	for _, c := range []struct {
		name     string
		devices  []schedule.Device
		ask      question
		wantText string
	}{
		{"no device requested", plain, question{}, ""},
		{"a host without devices", nil, question{requests: []pci.Request{one}}, "no free device 8086:1533 on the host"},
		{"another product", plain, question{requests: []pci.Request{requestFor(1, "", "1534")}},
			"no free device 8086:1534 on the host"},
		{"two requests", plain, question{requests: []pci.Request{one, one}}, ""},
		{"three requests, applied one after the other", plain, question{requests: []pci.Request{one, one, one}},
			"fewer than 3 free"},
		{"without a mapping any provider is accepted", slices.Concat(three, plain),
			question{requests: []pci.Request{vf, pf, one}}, ""},
		{"VFs of two PFs", vfs, question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")}}, ""},
		{"one VF more than two PFs have", vfs, question{requests: []pci.Request{requestFor(5, pci.Virtual, "1515")}},
			"fewer than 5 free type-VF 8086:1515 on the host"},
		{"VFs of one PF that differ in class", change(vfs, 0, func(d *schedule.Device) { d.ResourceClass = "CUSTOM_Y" }),
			question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")}}, ""},
		{"the request names the provider", three, question{requests: []pci.Request{onProvider(pf, "pf3"),
			onProvider(pf, "pf2")}},
			""},
		{"the request names a provider with too few devices", three, question{requests: []pci.Request{onProvider(pf, "pf3"),
			onProvider(pf, "pf3")}},
			"fewer than 2 free type-PF 8086:1528 on the chosen provider"},
		{"live-migratable requested, the device has no",
			change(vfs[:1], 0, func(d *schedule.Device) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{migratable(vf)}}, "live_migratable true"},
		{"live-migratable requested, the device has no tag", vfs[:1], question{requests: []pci.Request{migratable(vf)}},
			"live_migratable true"},
		{"live-migratable requested, the device has yes",
			change(vfs[:1], 0, func(d *schedule.Device) { d.LiveMigratable = pci.Yes }),
			question{requests: []pci.Request{migratable(vf)}}, ""},
		{"not live-migratable requested, the device has yes",
			change(vfs[:1], 0, func(d *schedule.Device) { d.LiveMigratable = pci.Yes }),
			question{requests: []pci.Request{notMigratable(vf)}},
			"live_migratable false"},
		{"not live-migratable requested, the device has no tag", vfs[:1],
			question{requests: []pci.Request{notMigratable(vf)}}, "live_migratable false"},
		{"not live-migratable requested, the device has no",
			change(vfs[:1], 0, func(d *schedule.Device) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{notMigratable(vf)}}, ""},
		{"no tag requested, the device has yes",
			change(vfs[:1], 0, func(d *schedule.Device) { d.LiveMigratable = pci.Yes }), question{requests: []pci.Request{vf}},
			""},
		{"no tag requested, the device has no", change(vfs[:1], 0, func(d *schedule.Device) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{vf}}, ""},
		{"no tag requested, the device has none", vfs[:1], question{requests: []pci.Request{vf}}, ""},
		{"a provider of the class that no agent reports", plain, question{requests: []pci.Request{class},
			on: []provider.ID{"another's"}}, "no free device of CUSTOM_X on the chosen provider"},
		{"a provider without devices", vfs, question{requests: []pci.Request{vf}, on: []provider.ID{"elsewhere"}},
			"on the chosen provider"},
		{"two PFs by name", three, question{requests: []pci.Request{requestFor(2, pci.Physical, "1528")},
			on: []provider.ID{"pf2", "pf3"}}, ""},
		{"VF of one, PF of another", three, question{requests: []pci.Request{vf, pf}, on: []provider.ID{"pf1", "pf3"}}, ""},
		{"VF and PF of one card", three, question{requests: []pci.Request{vf, pf}, on: []provider.ID{"pf1", "pf1"}},
			"no free type-PF 8086:1528 on the chosen provider"},
		{"three VFs of two PFs", vfs, question{requests: []pci.Request{requestFor(3, pci.Virtual, "1515")},
			on: []provider.ID{"pf1", "pf2", "pf2"}}, ""},
		{"one VF of each", vfs, question{requests: []pci.Request{requestFor(2, pci.Virtual, "1515")},
			on: []provider.ID{"pf1", "pf2"}},
			""},
		{"the sum is enough, one provider is exhausted", vfs,
			question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")},
				on: []provider.ID{"pf1", "pf1", "pf1", "pf2"}},
			"fewer than 3 free"},
		{"all VFs of two PFs and the third PF", three, question{requests: []pci.Request{requestFor(8, pci.Virtual, "1515"),
			pf}}, ""},
		{"VFs of both and two PFs", three, question{requests: []pci.Request{requestFor(5, pci.Virtual, "1515"),
			requestFor(2, pci.Physical, "1528")}}, "fewer than 2 free type-PF"},
		{"a PF of the same product is not a VF",
			slices.Concat(change(card(1, "p", 0, true, 8), 0, func(d *schedule.Device) { d.Product = "1515" })),
			question{requests: []pci.Request{requestFor(9, "", "1515")}}, "fewer than 9 free device 8086:1515"},
		{"a PF must be requested by its type", card(1, "p", 0, true, 0),
			question{requests: []pci.Request{requestFor(1, "", "1528")}},
			"no free device"},
		{"a vdpa device must be requested by its type", change(card(1, "p", 0, false, 1), 0,
			func(d *schedule.Device) { d.Type = "vdpa" }), question{requests: []pci.Request{requestFor(1, "", "1515")}},
			"no free device"},
		{"a remote-managed device is only for ports", change(vfs, 0, remote),
			question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")}},
			"fewer than 4 free"},
		{"the devices that are not remote-managed", change(vfs, 0, remote),
			question{requests: []pci.Request{requestFor(3, pci.Virtual, "1515")}}, ""},
		{"a device of a physical network, by alias, without Placement", change(plain, 0, physnet),
			question{requests: []pci.Request{one, one}}, ""},
		{"a device of a physical network, on a provider chosen by Placement", change(plain, 0, physnet),
			question{requests: []pci.Request{one}, on: []provider.ID{"p8"}},
			"no free device"},
		{"class and product on different providers", slices.Concat(
			change(plain[:1], 0, func(d *schedule.Device) { d.Provider, d.ResourceClass = "p00", "CUSTOM_MY_DEV" }),
			change(card(5, "p01", 0, true, 0), 0, func(d *schedule.Device) { d.ResourceClass = "CUSTOM_MY_DEV" })),
			question{requests: []pci.Request{{Alias: "a", Count: 1, Requirement: pci.Requirement{Vendor: "8086", Product: "1533",
				Class: "CUSTOM_MY_DEV", Required: []resource.Trait{"CUSTOM_A_PF"}}}},
				on: []provider.ID{"p01"}}, "no free device 8086:1533 on the chosen provider"},
		{"Placement has checked class and traits of its provider", plain, question{requests: []pci.Request{class},
			on: []provider.ID{"p8"}},
			""},
		{"without a provider the class is checked", plain, question{requests: []pci.Request{class}},
			"no free device of CUSTOM_X on the host"},
		{"either definition", plain,
			question{requests: []pci.Request{orRequirement(class, pci.Requirement{Vendor: "8086", Product: "1533"})}}, ""},
		{"neither definition", plain,
			question{requests: []pci.Request{orRequirement(class, pci.Requirement{Vendor: "8086", Product: "1534"})}},
			"no free device"},
		{"VFs of another PF that differ in tags",
			change(vfs, 0, func(d *schedule.Device) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{requestFor(2, pci.Virtual, "1515")}, on: []provider.ID{"pf2", "pf2"}}, ""},
		{"VFs that differ in tags, no tag requested", change(vfs, 0, func(d *schedule.Device) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{requestFor(2, pci.Virtual, "1515")}, on: []provider.ID{"pf1", "pf1"}}, ""},
		{"used once and not cleaned", change(plain[:1], 0, func(d *schedule.Device) { d.OneTimeUse, d.Spent = true, true }),
			question{requests: []pci.Request{one}}, "no free device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			filter := schedule.FilterDevices
			if c.wantText == "" {
				filter = ""
			}
			check(t, c.ask, host("h", c.devices...), c.wantText, filter)
		})
	}
	inPlacement := host("h", change(plain[:1], 0, physnet)...)
	inPlacement.InPlacement = true
	check(t, question{requests: []pci.Request{one}}, inPlacement, "no free device", schedule.FilterDevices)
}

// TestDevicesAreFittedByTags checks that each request gets the device with its tags, in any order of the requests.
func TestDevicesAreFittedByTags(t *testing.T) {
	flags := []pci.Flag{pci.Unset, pci.Yes, pci.No}
	var list []schedule.Device
	var requests []pci.Request
	for i, f := range flags {
		d := testDevice(uint8(i), pci.Plain, "1533", provider.ID(fmt.Sprint("p", i)), 0)
		d.LiveMigratable = f
		list = append(list, d)
		r := requestFor(1, "", "1533")
		r.Requirement.LiveMigratable = f
		requests = append(requests, r)
	}
	check(t, question{requests: requests}, host("h", list...), "", "")
	slices.Reverse(requests)
	check(t, question{requests: requests}, host("h", list...), "", "")
	requests[0].Requirement.LiveMigratable = pci.Yes
	check(t, question{requests: requests}, host("h", list...),
		"fewer than 2 free device 8086:1533 with live_migratable true "+
			"on the host", schedule.FilterDevices)
}

// TestRelativesOfTakenDevicesAreNotFree checks that the devices that guests have or will get are not free, nor the PFs
// of such VFs and the VFs of such PFs.
func TestRelativesOfTakenDevicesAreNotFree(t *testing.T) {
	one := host("h", card(1, "p", 0, true, 2)...)
	held := one
	held.Guests = []schedule.Guest{{ID: "s1", Devices: []schedule.Picked{{Address: "0000:01:01.0"}}}}
	check(t, question{requests: []pci.Request{requestFor(1, pci.Physical, "1528")}}, held, "no free type-PF",
		schedule.FilterDevices)
	check(t, question{requests: []pci.Request{requestFor(1, pci.Virtual, "1515")}}, held, "", "")
	promised := one
	r := requestFor(1, pci.Physical, "1528")
	r.ID = "Q"
	promised.Guests = []schedule.Guest{{ID: "s1", Requests: []pci.Request{r}}}
	check(t, question{requests: []pci.Request{requestFor(1, pci.Virtual, "1515")}}, promised, "no free type-VF",
		schedule.FilterDevices)
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

func withCells(h schedule.Host, cells ...numa.Cell) schedule.Host { h.Cells = cells; return h }

// TestNUMAFilter checks on which NUMA nodes a guest can be placed so that its devices are near enough.
func TestNUMAFilter(t *testing.T) {
	// full returns a node without free CPUs.
	full := func(id, socket int) numa.Cell { return node(id, socket, 0) }
	nic := func(bus uint8, on provider.ID, n int) schedule.Device {
		return testDevice(bus, pci.Plain, "1533", on, n)
	}
	r := requestFor(1, "", "1533")
	near := schedule.FilterNUMA
	for _, c := range []struct {
		name     string
		cells    []numa.Cell
		devs     []schedule.Device
		ask      question
		wantText string
		filter   schedule.Filter
	}{
		{"no device requested", []numa.Cell{node(0, 0, 2)}, nil, question{cells: guest(1)}, "", ""},
		{"the device is on the guest's node", []numa.Cell{node(0, 0, 2)}, []schedule.Device{nic(1, "p", 0)},
			question{requests: []pci.Request{r},
				cells: guest(1)}, "", ""},
		{"the device is on another node", []numa.Cell{node(0, 0, 2)}, []schedule.Device{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, cells: guest(1)}, "near enough", near},
		{"the host reports no nodes", nil, []schedule.Device{nic(1, "p", 0)}, question{requests: []pci.Request{r},
			cells: guest(1)}, "reports no NUMA nodes", near},
		{"no NUMA cells: required has no effect", []numa.Cell{full(0, 0)}, []schedule.Device{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Required, r)}}, "", ""},
		{"a guest on both nodes", []numa.Cell{node(0, 0, 2), node(1, 1, 2)}, []schedule.Device{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, cells: guest(2)}, "", ""},
		{"a guest on the other node", []numa.Cell{node(0, 0, 2), full(1, 1)}, []schedule.Device{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, cells: guest(1)}, "near enough", near},
		{"device without a node: legacy", []numa.Cell{node(0, 0, 2)}, []schedule.Device{nic(1, "p", pci.NoNUMA)},
			question{requests: []pci.Request{r}, cells: guest(1)}, "", ""},
		{"device without a node: required", []numa.Cell{node(0, 0, 2)}, []schedule.Device{nic(1, "p", pci.NoNUMA)},
			question{requests: []pci.Request{withPolicy(pci.Required, r)}, cells: guest(1)}, "numa_policy required", near},
		{"device without a node: preferred", []numa.Cell{node(0, 0, 2)}, []schedule.Device{nic(1, "p", pci.NoNUMA)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, cells: guest(1)}, "", ""},
		{"preferred, the guest fits only on node 1", []numa.Cell{full(0, 0), node(1, 1, 2)},
			[]schedule.Device{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, on: []provider.ID{"p"}, cells: guest(1)}, "", ""},
		{"legacy finds the node of the device", []numa.Cell{node(0, 0, 2), node(1, 1, 2)}, []schedule.Device{nic(1, "p", 1)},
			question{requests: []pci.Request{r}, on: []provider.ID{"p"}, cells: guest(1)}, "", ""},
		{"the chosen device is on the full node", []numa.Cell{full(0, 0), node(1, 1, 2)},
			[]schedule.Device{nic(1, "green", 0),
				nic(2, "red", 1)},
			question{requests: []pci.Request{withPolicy(pci.Required, r)}, on: []provider.ID{"green"}, cells: guest(1)},
			"near enough",
			near},
		{"socket: one socket of two nodes", []numa.Cell{node(0, 0, 2), full(1, 0)}, []schedule.Device{nic(1, "p", 1)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "", ""},
		{"socket: two sockets", []numa.Cell{node(0, 0, 2), full(1, 1)}, []schedule.Device{nic(1, "p", 1)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "numa_policy socket", near},
		{"socket: three of four nodes", []numa.Cell{full(0, 0), node(1, 0, 2), node(2, 1, 2), node(3, 1, 2)},
			[]schedule.Device{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(3)}, "", ""},
		{"socket: a node with an unknown socket", []numa.Cell{node(0, 0, 2), full(1, 0), full(2, numa.NoSocket)},
			[]schedule.Device{nic(1, "p", 1)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "numa_policy socket", near},
		{"socket: a node with an unknown socket, the device is local", []numa.Cell{node(0, 0, 2), full(1, numa.NoSocket)},
			[]schedule.Device{nic(1, "p", 0)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "", ""},
		{"socket: the second node of a socket", []numa.Cell{node(0, 0, 2), node(1, 1, 2), full(2, 1)},
			[]schedule.Device{nic(1, "p", 2)},
			question{requests: []pci.Request{withPolicy(pci.Socket, r)}, cells: guest(1)}, "", ""},
		{"preferred: the near device is not on the chosen provider", []numa.Cell{node(0, 0, 2)},
			[]schedule.Device{nic(1, "near", 0),
				nic(2, "far", 1)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, on: []provider.ID{"far"}, cells: guest(1)}, "", ""},
		{"preferred: the near device is taken", []numa.Cell{node(0, 0, 2)}, []schedule.Device{taken(nic(1, "near", 0)),
			nic(2, "far", 1)},
			question{requests: []pci.Request{withPolicy(pci.Preferred, r)}, cells: guest(1)}, "", ""},
		{"legacy: the near device is not on the chosen provider, the other has no node", []numa.Cell{node(0, 0, 2)},
			[]schedule.Device{nic(1, "near", 0), nic(2, "far", pci.NoNUMA)},
			question{requests: []pci.Request{r}, on: []provider.ID{"far"}, cells: guest(1)}, "", ""},
		{"two devices on two nodes and a guest of two cells", []numa.Cell{node(0, 0, 2), node(1, 0, 2), node(2, 1, 2),
			node(3, 1, 2)},
			[]schedule.Device{nic(1, "p", 1), nic(2, "q", 3)},
			question{requests: []pci.Request{withPolicy(pci.Required, requestFor(2, "", "1533"))}, on: []provider.ID{"p", "q"},
				cells: guest(2)}, "", ""},
		{"two devices on two nodes and a guest of one cell", []numa.Cell{node(0, 0, 2), node(1, 0, 2), node(2, 1, 2),
			node(3, 1, 2)},
			[]schedule.Device{nic(1, "p", 1), nic(2, "q", 3)},
			question{requests: []pci.Request{withPolicy(pci.Required, requestFor(2, "", "1533"))}, on: []provider.ID{"p", "q"},
				cells: guest(1)}, "near enough", near},
		{"too few free CPUs", []numa.Cell{node(0, 0, 1), full(1, 1)}, nil, question{cells: guest(1)},
			"no NUMA node has 2 threads for dedicated CPUs left", near},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, c.ask, withCells(host("h", c.devs...), c.cells...), c.wantText, c.filter)
		})
	}
}

func taken(d schedule.Device) schedule.Device { d.State = schedule.Allocated; return d }

// TestNUMAPolicyByNodeOfDevice combines NUMA policies with the nodes of a device, for a guest that fits only on node 1.
func TestNUMAPolicyByNodeOfDevice(t *testing.T) {
	for p, fits := range map[pci.NUMAPolicy]string{pci.Preferred: "AAA", pci.Legacy: "AEA", pci.Required: "EEA"} {
		for i, on := range []int{pci.NoNUMA, 0, 1} {
			t.Run(fmt.Sprintf("%s device on %d", p, on), func(t *testing.T) {
				h := withCells(host("h", testDevice(1, pci.Plain, "1533", "p", on)), node(0, 0, 0), node(1, 1, 2))
				wantText, filter := "", schedule.Filter("")
				if fits[i] == 'E' {
					wantText, filter = "near enough", schedule.FilterNUMA
				}
				check(t, question{requests: []pci.Request{withPolicy(p, requestFor(1, "", "1533"))}, cells: guest(1)}, h, wantText,
					filter)
			})
		}
	}
}

// TestNUMAPolicyWithSeveralDevices requests devices of which one is on node 0, one on node 1, and one has no node.
func TestNUMAPolicyWithSeveralDevices(t *testing.T) {
	h := host("h", testDevice(1, pci.Plain, "1533", "pr0", 0), testDevice(2, pci.Plain, "1533", "pr1", 1),
		testDevice(3, pci.Plain, "1533",
			"prn", pci.NoNUMA))
	on0, on9 := []numa.Cell{node(0, 0, 2)}, []numa.Cell{node(9, 0, 2)}
	for _, c := range []struct {
		name  string
		p     pci.NUMAPolicy
		count int
		cells []numa.Cell
		fits  bool
	}{
		{"required node0", pci.Required, 1, on0, true}, {"required node999", pci.Required, 1, on9, false},
		{"required 2", pci.Required, 2, on0, false},
		{"legacy node0", pci.Legacy, 1, on0, true}, {"legacy 999", pci.Legacy, 1, on9, true},
		{"legacy 2", pci.Legacy, 2, on0, true}, {"legacy 3", pci.Legacy, 3, on0, false},
		{"preferred 2", pci.Preferred, 2, on0, true}, {"preferred 3", pci.Preferred, 3, on0, true},
		{"preferred 999", pci.Preferred, 1, on9, true},
		{"preferred 4", pci.Preferred, 4, on0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			reason, _ := question{requests: []pci.Request{withPolicy(c.p, requestFor(c.count, "", "1533"))},
				cells: guest(1)}.judgeOn(withCells(h,
				c.cells...))
			if (reason == "") != c.fits {
				t.Errorf("refused %q", reason)
			}
		})
	}
}

// TestGuestsMissingFromReportCount checks that guests that the report does not contain yet count, and others count
// once.
func TestGuestsMissingFromReportCount(t *testing.T) {
	base := withCells(host("h"), node(0, 0, 4), node(1, 0, 2))
	for _, c := range []struct {
		name    string
		guests  []schedule.Guest
		counted []string
		fits    bool
	}{
		{"no other guest", nil, nil, true},
		{"a guest with a known place",
			[]schedule.Guest{{ID: "s", Cells: guest(1), Placed: []numa.Placed{{Node: 1, CPUs: map[int]int{0: 10, 1: 11}}}}}, nil,
			false},
		{"a guest with a known place that the report contains",
			[]schedule.Guest{{ID: "s", Cells: guest(1), Placed: []numa.Placed{{Node: 1, CPUs: map[int]int{0: 10, 1: 11}}}}},
			[]string{"s"}, true},
		{"a guest without a place counts on the emptier node", []schedule.Guest{{ID: "s", Cells: guest(1)}}, nil, true},
		{"two guests without a place", []schedule.Guest{{ID: "s", Cells: guest(1)}, {ID: "t", Cells: guest(1)}}, nil,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := base
			h.Guests, h.Counted = c.guests, c.counted
			reason, _ := question{cells: guest(2)}.judgeOn(h)
			if (reason == "") != c.fits {
				t.Errorf("refused %q", reason)
			}
		})
	}
}

// TestCandidatesOfOneHostAreJudgedSeparately checks that only the suitable candidates of a host are accepted. The
// second of them is the fallback for the first.
func TestCandidatesOfOneHostAreJudgedSeparately(t *testing.T) {
	h := withCells(host("h", testDevice(1, pci.Plain, "1533", "p0", 0), testDevice(2, pci.Plain, "1533", "p1", 1),
		testDevice(3, pci.Plain, "1533", "p2", 1)), node(0, 0, 0), node(1, 1, 2))
	r := withPolicy(pci.Required, requestFor(1, "", "1533"))
	r.ID = "R"
	p := schedule.Input{Hosts: hosts(h), Cells: guest(1), Now: noon, Silence: schedule.Silence,
		Candidates: []schedule.Candidate{candidate("h", "p0"), candidate("h", "p1"), candidate("h", "p2")}}
	choices, refusals := schedule.Choose(p, []pci.Request{r}, 1)
	on := map[provider.ID]bool{}
	for _, c := range choices {
		on[c.Mappings["R-0"][0]] = true
	}
	if !maps.Equal(on, map[provider.ID]bool{"p1": true, "p2": true}) || len(refusals) != 1 {
		t.Errorf("%v %v", choices, refusals)
	}
	want := "1 host: no free device 8086:1533 near enough to the guest's NUMA nodes (numa_policy required) (nearest: " +
		"the guest fits on node 1, a device is on node 0)"
	if got := schedule.Summarise(refusals); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestOrderOfHostsByFreeDevicesAndLoad checks that hosts with fewer free devices that the server cannot use come first,
// then hosts with lower load.
func TestOrderOfHostsByFreeDevicesAndLoad(t *testing.T) {
	many := host("many", slices.Concat(card(1, "m", 0, false, 8), card(2, "n", 0, false, 4))...)
	some := host("some", card(1, "s", 0, false, 1)...)
	none, busy := host("none"), host("busy")
	busy.Load = 0.9
	gpus := host("gpus", append(card(1, "g", 0, false, 1), testDevice(9, pci.Plain, "1533", "gpu", 0))...)
	order := func(requests []pci.Request, list ...schedule.Host) (names []string) {
		p := schedule.Input{Hosts: hosts(list...), Now: noon, Silence: schedule.Silence}
		for _, h := range list {
			p.Candidates = append(p.Candidates, candidate(h.Name))
		}
		for seed := range uint64(8) {
			choices, _ := schedule.Choose(p, requests, seed)
			var round []string
			for _, c := range choices {
				round = append(round, c.Host)
			}
			if names != nil && !slices.Equal(names, round) {
				t.Errorf("the order depends on the seed: %v or %v", names, round)
			}
			names = round
		}
		return names
	}
	if got := order(nil, many, busy, some, none); !slices.Equal(got, []string{"none", "busy", "some", "many"}) {
		t.Errorf("without devices: %v", got)
	}
	vf := requestFor(1, pci.Virtual, "1515")
	vf.ID = "R"
	many.Load, some.Load = 0.1, 0.5
	if got := order([]pci.Request{vf}, gpus, some, many); !slices.Equal(got, []string{"many", "some", "gpus"}) {
		t.Errorf("with devices: %v, want the host with a GPU last", got)
	}
}

// TestRefusalsNameHostsAndNearestMiss checks the refusals of excluded hosts and of hosts other than the requested one,
// and the nearest miss of several hosts.
func TestRefusalsNameHostsAndNearestMiss(t *testing.T) {
	one, two := withCells(host("one"), node(0, 0, 0), node(1, 0, 1)), withCells(host("two"), node(0, 0, 0))
	p := schedule.Input{Hosts: hosts(one, two, host("three")), Cells: guest(1), Now: noon, Silence: schedule.Silence,
		ExcludedHosts: map[string]string{"three": "it is the host that the server leaves"},
		Candidates:    []schedule.Candidate{candidate("two"), candidate("one"), candidate("three")}}
	choices, refusals := schedule.Choose(p, nil, 1)
	want := "2 hosts: no NUMA node has 2 threads for dedicated CPUs left (nearest: node 1 has 1); 1 host: it is the " +
		"host that the server leaves"
	if got := schedule.Summarise(refusals); got != want || len(choices) != 0 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	failures := schedule.FilterFailures(refusals)
	if len(failures) != 2 || failures[0].Filter != schedule.FilterNUMA || failures[0].Count != 2 ||
		!slices.Equal(failures[0].Hosts,
			[]string{"one", "two"}) || failures[0].Nearest != "one: node 1 has 1" || failures[1].Filter != schedule.FilterHost {
		t.Errorf("%+v", failures)
	}
	p.Cells, p.Only = nil, "two"
	choices, refusals = schedule.Choose(p, nil, 1)
	if len(choices) != 1 || choices[0].Host != "two" || schedule.Summarise(refusals) != "2 hosts: host two was requested" {
		t.Errorf("%v %s", choices, schedule.Summarise(refusals))
	}
}
