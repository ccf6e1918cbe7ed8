package view

import (
	"reflect"
	"slices"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// nicFleet is a host with a NIC with 10 Gbit/s for egress and 5 for ingress, of which two servers have some, and a
// bridge with bandwidth. below is the provider above that of the VFs.
func nicFleet(below provider.ID) *fleet.View {
	rates := func(egress, ingress int) map[resource.Class]resource.Inventory {
		return map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(egress),
			bandwidth.IngressBandwidth: resource.Whole(ingress)}
	}
	of := func(id, name string, parent provider.ID, have map[resource.Class]resource.Inventory,
		held map[resource.ConsumerID]resource.Amounts) fleet.Provider {
		return fleet.Provider{Provider: provider.Provider{ID: provider.ID(id), Name: name, Parent: parent, Root: "h",
			Inventories: have}, Held: held}
	}
	return fleet.NewView(&fleet.Snapshot{Servers: []fleet.Server{{ID: "s1", Name: "web"}, {ID: "s2", Name: "db"}},
		Providers: []fleet.Provider{of("h", "h", "", nil, nil),
			of("nic", "h:NIC Switch agent:ens1", "h", rates(10000000, 5000000), map[resource.ConsumerID]resource.Amounts{
				"s1": {bandwidth.EgressBandwidth: 2000000, bandwidth.IngressBandwidth: 1000000},
				"s2": {bandwidth.EgressBandwidth: 1000000}}),
			of("br", "h:Open vSwitch agent:br-ex", "h", rates(1000000, 0), nil),
			of("vfs", "h_0000:18:00.0", below, map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(4)},
				map[resource.ConsumerID]resource.Amounts{"s1": {"CUSTOM_VF": 1}, "s2": {"CUSTOM_VF": 2}})}})
}

// The card of a NIC has the bars of its guaranteed bandwidth in both directions: of the provider that the agent names,
// or of the one above in Placement, also of a host without a report. Other bandwidth is shown by itself.
func TestBandwidthOfNIC(t *testing.T) {
	vf := host.Device{Host: "h", Address: "0000:18:00.1", Parent: "0000:18:00.0", Provider: "vfs",
		ResourceClass: "CUSTOM_VF", State: "available"}
	named := vf
	named.Provider, named.Bandwidth = "", "nic"
	for name, c := range map[string]struct {
		below   provider.ID
		devices []host.Device
		onCard  bool
	}{
		"the agent names it":            {"h", []host.Device{named}, true},
		"it is above in Placement":      {"nic", []host.Device{vf}, true},
		"the host has no report":        {"nic", nil, true},
		"the NIC has no bandwidth":      {"h", []host.Device{vf}, false},
		"no report, and no bandwidth":   {"h", nil, false},
		"the provider is not known yet": {"h", []host.Device{{Address: "0000:18:00.0", Bandwidth: "x"}}, false},
	} {
		source := Source{Fleet: nicFleet(c.below)}
		if c.devices != nil {
			source.Reports = []host.Report{{Host: "h", Devices: c.devices}}
		}
		p := New(source).HostPage("h")
		var bars, rest []string
		p.eachCard(func(card *Card) {
			for _, bar := range card.Bands {
				bars = append(bars, bar.Label)
			}
		})
		for _, bar := range p.Bandwidth {
			rest = append(rest, bar.Name)
		}
		nic := []string{"NIC Switch agent:ens1, egress: 3\u202f000/10\u202f000 Mbit/s (web 2\u202f000, db 1\u202f000)",
			"NIC Switch agent:ens1, ingress: 1\u202f000/5\u202f000 Mbit/s (web 1\u202f000)"}
		others := []string{"Open vSwitch agent:br-ex, egress"}
		if !c.onCard {
			nic, others = nil, []string{"NIC Switch agent:ens1, egress", "NIC Switch agent:ens1, ingress", others[0]}
		}
		if !slices.Equal(bars, nic) || !slices.Equal(rest, others) {
			t.Errorf("%s: on the card %q, beside %q", name, bars, rest)
		}
	}
}

// Who holds what names each device that the agent reports, such as a VF, and what else Placement has by its provider.
func TestHeldDevices(t *testing.T) {
	device := func(address, holder string) host.Device {
		return host.Device{Address: address, Provider: "vfs", ResourceClass: "CUSTOM_VF", Holder: holder}
	}
	got := map[string][]string{}
	for _, row := range New(Source{Fleet: nicFleet("nic"), Reports: []host.Report{{Host: "h", Devices: []host.Device{
		device("0000:18:00.1", "s1"), device("0000:18:00.2", "s2"), device("0000:18:00.3", ""),
		{Address: "0000:19:00.0", ResourceClass: "CUSTOM_GPU", Holder: "s3"}}}}}).HostPage("h").Holders {
		got[string(row.Consumer)] = row.Devices
	}
	want := map[string][]string{"s1": {"0000:18:00.1 CUSTOM_VF"}, "s2": {"0000:18:00.0 CUSTOM_VF:1",
		"0000:18:00.2 CUSTOM_VF"}, "s3": {"0000:19:00.0 CUSTOM_GPU"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

// Each guest with NUMA cells is listed on its nodes with its CPUs and its memory, and its CPUs are drawn as its own.
func TestGuestsOfNodes(t *testing.T) {
	cells := []host.Cell{{ID: 0, CPUs: []int{0, 1}, Dedicated: []int{2, 3, 4, 5}, Pinned: []int{2, 3, 5},
		Pages: []host.Pages{{SizeKB: 2048, Total: 4}, {SizeKB: 1 << 20}}},
		{ID: 1, Socket: 1, CPUs: []int{6, 7}}}
	guests := []host.CountedGuest{
		{ID: "s1", Cells: []host.GuestCell{{VCPUs: []int{0, 1, 2}, Dedicated: []int{0, 1}, MemoryMB: 2048},
			{VCPUs: []int{3}, MemoryMB: 512}}, Placed: []host.PlacedCell{{Node: 0, CPUs: map[int]int{0: 3, 1: 2},
			Emulator: []int{5}, PageKB: 1 << 20}, {Node: 1}}},
		{ID: "unknown", Cells: []host.GuestCell{{VCPUs: []int{0}, MemoryMB: 64}}, Placed: []host.PlacedCell{{Node: 1}}},
		{ID: "half", Cells: []host.GuestCell{}, Placed: []host.PlacedCell{{Node: 0}}}}
	report := host.Report{Host: "h", Cells: cells, Counted: guests}
	p := New(Source{Fleet: nicFleet("h"), Reports: []host.Report{report}}).HostPage("h")
	var got []string
	for _, s := range p.Sockets {
		for _, n := range s.Nodes {
			for _, g := range n.Guests {
				got = append(got, n.Name+": "+g.Holder.String()+": "+g.CPUs+", "+g.Memory)
			}
		}
	}
	want := []string{"NUMA node 0: web: CPUs 2-3, emulator on 5, 1 shared CPU, 2 × 1 GiB",
		"NUMA node 1: unknown consumer unknown: 1 shared CPU, 64 MiB", "NUMA node 1: web: 1 shared CPU, 512 MiB"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if bars := p.Sockets[0].Nodes[0].Bars; len(bars) != 1 || bars[0] != (Bar{"Pages of 2 MiB", "0/4", 0}) {
		t.Errorf("a size without pages is not shown: %+v", bars)
	}
	var drawn []string
	for _, path := range p.Sockets[0].Nodes[0].CPUs.Paths {
		drawn = append(drawn, path.Class+" "+string(path.Consumer))
	}
	if !slices.Equal(drawn, []string{"f ", "h s1", "sh "}) {
		t.Errorf("%q", drawn)
	}
}
