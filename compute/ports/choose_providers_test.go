package ports

import (
	"maps"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/allocations"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The providers of a host with two NICs: of their bandwidth, and below them of their VFs.
const (
	healRoot = provider.ID("00000000-0000-0000-0000-000000000001")
	healNIC1 = provider.ID("00000000-0000-0000-0000-000000000011")
	healNIC2 = provider.ID("00000000-0000-0000-0000-000000000012")
	healVFs1 = provider.ID("00000000-0000-0000-0000-000000000021")
	healVFs2 = provider.ID("00000000-0000-0000-0000-000000000022")
)

// twoNICs returns a healer whose Placement has two NICs of 10 Mbit/s with 4 VFs each, and the report of the host.
func twoNICs(t *testing.T) (portPlanner, *placementtest.Placement, schedule.Host) {
	t.Helper()
	p := placementtest.New(nil)
	p.SetProvider(provider.Provider{ID: healRoot, Root: healRoot, Name: "cmp1",
		Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)}})
	host := schedule.Host{Name: "cmp1", Provider: healRoot}
	for n, ids := range [][2]provider.ID{{healNIC1, healVFs1}, {healNIC2, healVFs2}} {
		p.SetProvider(provider.Provider{ID: ids[0], Root: healRoot, Parent: healRoot, Name: string(ids[0]),
			Traits:      []resource.Trait{"CUSTOM_PHYSNET_A", "CUSTOM_VNIC_TYPE_DIRECT"},
			Inventories: map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(10000)}})
		p.SetProvider(provider.Provider{ID: ids[1], Root: healRoot, Parent: ids[0], Name: string(ids[1]),
			Inventories: map[resource.Class]resource.Inventory{pci.PortVF: resource.Whole(4)}})
		address, err := pci.ParseAddress([]string{"0000:81:00.1", "0000:82:00.1"}[n])
		if err != nil {
			t.Fatal(err)
		}
		host.Devices = append(host.Devices, pci.Offered{Device: pci.Device{Address: address}, Provider: ids[1],
			ForPorts: true})
	}
	b := New(nil, Options{Trees: p, Writer: allocations.Writer{Placement: p}})
	return b.planner(), p, host
}

// directPort is a bound port of vnic type direct with a guarantee of 4 Mbit/s.
func directPort(id, slot string) network.Port {
	p := network.Port{ID: id, ActiveBinding: network.ActiveBinding{Host: "cmp1", VNIC: "direct",
		Profile: map[string]any{}}}
	if slot != "" {
		p.Profile["pci_slot"] = slot
	}
	p.Request = &network.ResourceRequest{SameSubtree: []string{"g-" + id}, Groups: []network.RequestGroup{{ID: "g-" + id,
		Required:  []string{"CUSTOM_PHYSNET_A", "CUSTOM_VNIC_TYPE_DIRECT"},
		Resources: resource.Amounts{bandwidth.EgressBandwidth: 4000}}}}
	return p
}

// planned returns the plan for ports of a server that has held.
func planned(t *testing.T, h portPlanner, host schedule.Host, held resource.Allocation,
	ports ...network.Port) (portsPlan, Healing) {
	t.Helper()
	plan, out := portsPlan{server: lifecycle.Server{ID: "s", Host: "cmp1"}, host: host, before: ports,
		bound: ports}, Healing{}
	if err := h.plan(t.Context(), &plan, &out, held); err != nil {
		t.Fatal(err)
	}
	return plan, out
}

// A host has two NICs with room for a port (row E9): its device decides, and is counted too; without one nothing is
// chosen.
func TestHealingChoosesTheNICOfTheDevice(t *testing.T) {
	h, _, host := twoNICs(t)
	held := resource.Allocation{healRoot: {"VCPU": 1}}
	for slot, want := range map[string]resource.Allocation{
		"0000:81:00.1": {healNIC1: {bandwidth.EgressBandwidth: 4000}, healVFs1: {pci.PortVF: 1}},
		"0000:82:00.1": {healNIC2: {bandwidth.EgressBandwidth: 4000}, healVFs2: {pci.PortVF: 1}},
	} {
		plan, out := planned(t, h, host, held, directPort("p", slot))
		if out.State != NeedHealing || !out.Adds.Equal(want) || len(out.Removes) > 0 || len(out.Ports) != 1 ||
			out.Ports[0].Device != slot {
			t.Errorf("%s: %+v", slot, out)
		}
		_, again := planned(t, h, host, plan.allocation(held), plan.after...)
		if again.State != "" {
			t.Errorf("a healed server: %+v", again)
		}
	}
	_, out := planned(t, h, host, held, directPort("p", ""))
	if out.State != NotAllocated || !strings.Contains(out.Reason, "2 allocation candidates") {
		t.Errorf("%+v", out)
	}
	both, out := planned(t, h, host, held, directPort("p", "0000:81:00.1"), directPort("q", ""))
	if out.State != NotAllocated || len(both.after[1].Profile) != 0 {
		t.Errorf("a server with a port that cannot be healed: %+v", out)
	}
}

// The guarantee of a port is on another NIC than its device, as Nova and Neutron allow it: healing moves it.
func TestHealingMovesTheGuaranteeToTheNICOfTheDevice(t *testing.T) {
	h, p, host := twoNICs(t)
	port := directPort("p", "0000:81:00.1")
	port.Profile["allocation"] = map[string]any{"g-p": string(healNIC2)}
	held := resource.Allocation{healNIC2: {bandwidth.EgressBandwidth: 4000}}
	_, out := planned(t, h, host, held, port)
	adds := resource.Allocation{healNIC1: {bandwidth.EgressBandwidth: 4000}, healVFs1: {pci.PortVF: 1}}
	if out.State != NeedHealing || !out.Adds.Equal(adds) || !out.Removes.Equal(held) {
		t.Errorf("%+v", out)
	}
	p.SetAllocation("other", resource.Allocation{healNIC1: {bandwidth.EgressBandwidth: 7000}})
	if _, out = planned(t, h, host, held, port); out.State != NotAllocated ||
		!strings.Contains(out.Reason, "on the NIC of its device") {
		t.Errorf("%+v", out)
	}
}

// A port without a guarantee, bound before its host reported devices, gets the unit of its device only. A host that
// does not report the provider of a device counts none.
func TestHealingCountsDevicesOfBoundPorts(t *testing.T) {
	h, _, host := twoNICs(t)
	port := directPort("p", "0000:81:00.1")
	port.Request = nil
	plan, out := planned(t, h, host, nil, port)
	if want := (resource.Allocation{healVFs1: {pci.PortVF: 1}}); !out.Adds.Equal(want) || out.State != NeedHealing {
		t.Errorf("%+v", out)
	}
	if len(plan.after[0].Profile) != 1 {
		t.Errorf("%v", plan.after[0].Profile)
	}
	more := resource.Allocation{healVFs1: {pci.PortVF: 2}}
	if _, out = planned(t, h, host, more, port); out.State != "" {
		t.Errorf("units of devices are never removed: %+v", out)
	}
	host.Devices[0].Provider = ""
	if _, out = planned(t, h, host, nil, port); out.State != "" {
		t.Errorf("%+v", out)
	}
}

// What the server has on one NIC and no port explains is the port's; a port with an allocation in the earlier format
// gets the current one; the amounts of a port that requests nothing any more are removed.
func TestHealingUsesWhatTheServerHas(t *testing.T) {
	h, p, host := twoNICs(t)
	full := resource.Allocation{healNIC2: {bandwidth.EgressBandwidth: 4000}}
	p.SetAllocation("other", resource.Allocation{healNIC2: {bandwidth.EgressBandwidth: 6000}})
	plan, out := planned(t, h, host, full, directPort("p", ""))
	want := map[string]string{"g-p": string(healNIC2)}
	if got := plan.after[0].Allocation(); out.State != NeedHealing || len(out.Adds) > 0 || !maps.Equal(got, want) {
		t.Errorf("%v %+v", got, out)
	}
	early := directPort("p", "")
	early.Profile["allocation"] = string(healNIC2)
	plan, out = planned(t, h, host, full, early)
	if got := plan.after[0].Allocation(); !maps.Equal(got, want) || len(out.Adds)+len(out.Removes) > 0 {
		t.Errorf("%v %+v", got, out)
	}
	free := plan.after[0]
	free.Request = nil
	plan, out = planned(t, h, host, full, free)
	if !out.Removes.Equal(full) || len(plan.after[0].Profile) != 0 {
		t.Errorf("%+v %v", out, plan.after[0].Profile)
	}
}
