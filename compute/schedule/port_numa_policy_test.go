package schedule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// twoNodes is a host with a VF for ports on each NUMA node, and one on no node. Node 1 has room for a guest, node 0 has
// not. Both are on one socket.
func twoNodes() schedule.Host {
	network := "a"
	h := withCells(host("h", testDevice(1, pci.Virtual, "1515", "near", 1), testDevice(2, pci.Virtual, "1515", "far", 0),
		testDevice(3, pci.Virtual, "1515", "none", pci.NoNUMA)), node(0, 0, 0), node(1, 0, 4))
	for i := range h.Devices {
		parent := pci.Address{Bus: uint8(0x20 + i)}
		h.Devices[i].Parent, h.Devices[i].ForPorts, h.Devices[i].PhysicalNetwork = &parent, true, &network
		h.Devices[i].ResourceClass = pci.PortVF
	}
	return h
}

// chooseVF returns the providers of the choices for a port with a policy in their order, and the refusals.
func chooseVF(p schedule.Input, policy pci.NUMAPolicy) (chosen, refused string) {
	h := twoNodes()
	request := pci.Request{ID: "R", Count: 1, Policy: policy, Requirement: pci.Requirement{Class: pci.PortVF},
		Port: &pci.PortNeeds{ID: "p", PhysicalNetworks: []string{"a"}}}
	p.Hosts, p.Now, p.Silence = hosts(h), noon, schedule.Silence
	for _, on := range []provider.ID{"far", "none", "near"} {
		c := candidate("h", on)
		c.Allocation = resource.Allocation{on: {pci.PortVF: 1}}
		p.Candidates = append(p.Candidates, c)
	}
	choices, refusals := schedule.Choose(p, []pci.Request{request}, 1)
	var list, reasons []string
	for _, c := range choices {
		list = append(list, string(c.Mappings["R-0"][0]))
	}
	for _, r := range refusals {
		reasons = append(reasons, string(r.Filter)+": "+r.Reason)
	}
	return strings.Join(list, " "), strings.Join(reasons, "\n")
}

// The policy of a port decides which NICs may serve it, and in which order, for a guest that must be placed and for one
// that exists. Without NUMA cells each may.
func TestNUMAPolicyOfAPort(t *testing.T) {
	for policy, want := range map[pci.NUMAPolicy]string{pci.Required: "near", pci.Legacy: "near none",
		"": "near none", pci.Socket: "near far", pci.Preferred: "near none far"} {
		for name, input := range map[string]schedule.Input{"new": {Cells: guest(1)},
			"existing": {Placed: []numa.Placed{{Node: 1}}}} {
			got, refused := chooseVF(input, policy)
			if policy == pci.Legacy || policy == "" { // in any order
				got = strings.Join(slices.Sorted(slices.Values(strings.Fields(got))), " ")
			}
			refusals := 3 - len(strings.Fields(want))
			if got != want || strings.Count(refused, "NUMATopologyFilter: no free device of SRIOV_NET_VF near enough") !=
				refusals {
				t.Errorf("%q, %s guest: %q, want %q; %s", policy, name, got, want, refused)
			}
		}
		if got, refused := chooseVF(schedule.Input{}, policy); len(strings.Fields(got)) != 3 {
			t.Errorf("%q, no cells: %q; %s", policy, got, refused)
		}
	}
}

// Nearness decides before the bandwidth of the NICs.
func TestNearNICIsPreferredToAnIdleOne(t *testing.T) {
	const egress = resource.Class("NET_BW_EGR_KILOBIT_PER_SEC")
	used := func(kbit int) schedule.NIC {
		return schedule.NIC{Bandwidth: map[resource.Class]schedule.Room{egress: {Capacity: 1000, Used: kbit}}}
	}
	nics := map[provider.ID]schedule.NIC{"bw-near": used(100), "near": {Parent: "bw-near"},
		"bw-far": used(1000), "far": {Parent: "bw-far"}}
	for _, input := range []schedule.Input{{Cells: guest(1), NICs: nics}, {Placed: []numa.Placed{{Node: 1}}, NICs: nics}} {
		if got, _ := chooseVF(input, pci.Preferred); got != "near none far" {
			t.Errorf("%q", got)
		}
	}
	if got, _ := chooseVF(schedule.Input{NICs: nics}, pci.Preferred); !strings.HasSuffix(got, "near") {
		t.Errorf("without cells: %q", got)
	}
}
