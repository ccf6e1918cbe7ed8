package conductor

import (
	"context"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

type otherCalls interface{ ports.Network }

// The attributes of a port that compute changes.
const (
	deviceID    = "device_id"
	deviceOwner = "device_owner"
	hostID      = "binding:host_id"
	profile     = "binding:profile"
)

// fakePorts is a network service with ports only; other requests fail.
type fakePorts struct {
	otherCalls
	ports []network.Port
}

func (f *fakePorts) Ports(_ context.Context, query url.Values) ([]network.Port, error) {
	return slices.DeleteFunc(slices.Clone(f.ports), func(p network.Port) bool { return p.Device != query.Get(deviceID) }),
		nil
}

func (f *fakePorts) UpdatePort(_ context.Context, id string, attributes map[string]any) (network.Port, error) {
	i := slices.IndexFunc(f.ports, func(p network.Port) bool { return p.ID == id })
	f.ports[i].Profile = attributes[profile].(map[string]any)
	return f.ports[i], nil
}

// nicCloud has a server "web" on host a, with two NICs of 10 Mbit/s: nic-1 with a VF provider vf-1 below it, and nic-2
// with vf-2. Each has one VF for ports. All NICs are below an agent with packet rates.
type nicCloud struct {
	*cloud
	network   *fakePorts
	at        *replaceable // the network service of the conductor
	conductor *Conductor
}

// replaceable is a network service that a test replaces.
type replaceable struct{ networkService }

type networkService = ports.Network

// uses replaces the network service of the conductor.
func (c *nicCloud) uses(n ports.Network) { c.at.networkService = n }

// The PCI addresses of the VFs of the two NICs.
const slot1, slot2 = "0000:81:00.1", "0000:82:00.1"

func newNICCloud(t *testing.T, fail failFunc) nicCloud {
	t.Helper()
	c := newCloud(t, map[string]int{"a": 1})
	n := nicCloud{cloud: c, network: &fakePorts{}}
	n.at = &replaceable{n.network}
	n.conductor = c.auditor(c.client(fail), func(config *Config) {
		config.Network, config.Providers, config.Pause = n.at, c.client(fail), func(context.Context, int) {}
	})
	under := func(parent, id provider.ID, inventories map[resource.Class]resource.Inventory) {
		c.placement.SetProvider(provider.Provider{ID: id, Name: string(id), Parent: parent, Root: "root-a",
			Inventories: inventories})
	}
	under("root-a", "agent-a", map[resource.Class]resource.Inventory{bandwidth.PacketRate: resource.Whole(100)})
	report := schedule.Host{Name: "a", Instance: "agent-a", Start: "start", Provider: "root-a", InPlacement: true,
		Seen: time.Now()}
	for name, slot := range map[string]string{"1": slot1, "2": slot2} {
		nic, vf := provider.ID("nic-"+name), provider.ID("vf-"+name)
		under("agent-a", nic, map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(10000)})
		under(nic, vf, map[resource.Class]resource.Inventory{pci.PortVF: resource.Whole(1)})
		address, err := pci.ParseAddress(slot)
		if err != nil {
			t.Fatal(err)
		}
		report.Devices = append(report.Devices, pci.Offered{Device: pci.Device{Address: address, Type: pci.Virtual},
			ResourceClass: pci.PortVF, Provider: vf, State: pci.Claimed, ForPorts: true})
	}
	c.put(report)
	c.placed("web", func(s *lifecycle.Server) { s.Networks = []lifecycle.NetworkRequest{{Port: "p"}} })
	c.holds("web", resource.Allocation{"root-a": {"VCPU": 4}})
	return n
}

// heal heals all servers and returns the only result; none: nothing needs healing.
func (c nicCloud) heal() (one ports.Healing) {
	c.t.Helper()
	got, err := c.conductor.Ports.HealPorts(c.t.Context(), "", nil, true)
	if err != nil || len(got) > 1 {
		c.t.Fatalf("%+v %v", got, err)
	}
	if len(got) == 1 {
		one = got[0]
	}
	return one
}

// healTest is a bound port of the server, and what healing must make of it.
type healTest struct {
	name    string
	vnic    string
	profile map[string]any
	groups  []network.RequestGroup
	has     resource.Allocation // of the server, beside its VCPUs

	state      ports.State
	reason     string
	allocation any                 // binding:profile.allocation afterwards
	holds      resource.Allocation // of the server afterwards, beside its VCPUs
}

// healTests are the rows. Egress of 6 Mbit/s fits on each NIC.
func healTests() []healTest {
	egress := resource.Amounts{bandwidth.EgressBandwidth: 6000}
	rate := resource.Amounts{bandwidth.PacketRate: 50}
	one := []network.RequestGroup{{ID: "bw", Resources: egress}}
	two := []network.RequestGroup{one[0], {ID: "pps", Resources: rate}}
	on := func(slot string) map[string]any {
		return map[string]any{"pci_slot": slot, "pci_vendor_info": "8086:154c"}
	}
	bound := func(slot string, allocation any) map[string]any {
		all := on(slot)
		all["allocation"] = allocation
		return all
	}
	whole := resource.Allocation{"nic-2": egress, "vf-2": {pci.PortVF: 1}}
	return []healTest{
		{name: "two NICs are possible", vnic: "normal", groups: one, state: ports.NotAllocated,
			reason: "2 allocation candidates on host a"},
		{name: "the device decides", vnic: "direct", profile: on(slot2), groups: one, state: ports.Healed,
			allocation: map[string]any{"bw": "nic-2"}, holds: whole},
		{name: "packet rate and bandwidth", vnic: "direct", profile: on(slot2), groups: two, state: ports.Healed,
			allocation: map[string]any{"bw": "nic-2", "pps": "agent-a"},
			holds:      resource.Allocation{"nic-2": egress, "vf-2": {pci.PortVF: 1}, "agent-a": rate}},
		{name: "the format without groups", vnic: "direct", profile: on(slot2),
			groups: []network.RequestGroup{{Resources: egress}}, state: ports.Healed, allocation: "nic-2", holds: whole},
		{name: "a bound port moves to the model", vnic: "direct", profile: bound(slot2, map[string]any{"bw": "nic-2"}),
			groups: one, has: resource.Allocation{"nic-2": egress}, state: ports.Healed,
			allocation: map[string]any{"bw": "nic-2"}, holds: whole},
		{name: "a claimed VF without guarantee", vnic: "direct", profile: on(slot1), state: ports.Healed,
			holds: resource.Allocation{"vf-1": {pci.PortVF: 1}}},
		{name: "the other NIC is in Placement", vnic: "direct", profile: on(slot2), groups: one,
			has: resource.Allocation{"nic-2": egress, "vf-2": {pci.PortVF: 1}}, state: ports.Healed,
			allocation: map[string]any{"bw": "nic-2"}, holds: whole},
		{name: "nothing is missing", vnic: "direct", profile: bound(slot2, map[string]any{"bw": "nic-2"}), groups: one,
			has: whole, allocation: map[string]any{"bw": "nic-2"}, holds: whole},
		{name: "another compute service has claimed on both NICs", vnic: "direct", profile: on(slot2),
			groups: one, has: resource.Allocation{"nic-1": egress, "nic-2": egress}, state: ports.Healed,
			allocation: map[string]any{"bw": "nic-2"}, holds: whole},
		{name: "a device that is not offered decides nothing", vnic: "direct", profile: on("0000:99:00.1"), groups: one,
			state: ports.NotAllocated, reason: "2 allocation candidates on host a"},
		{name: "the allocation names another NIC than that of the device", vnic: "direct",
			profile: bound(slot2, map[string]any{"bw": "nic-1"}), groups: one, has: resource.Allocation{"nic-1": egress},
			state: ports.Healed, allocation: map[string]any{"bw": "nic-2"}, holds: whole},
	}
}

// A server is healed in Placement and in the network service: the NIC of the port's device gets the amounts, in both
// formats, and also if another NIC has them. The device is counted too.
func TestHealingMovesPortsToTheNICOfTheDevice(t *testing.T) {
	for _, test := range healTests() {
		t.Run(test.name, func(t *testing.T) {
			c := newNICCloud(t, nil)
			p := network.Port{ID: "p", Device: "web", ActiveBinding: network.ActiveBinding{Host: "a", VNIC: test.vnic,
				Profile: test.profile}}
			if len(test.groups) > 0 {
				p.Request = &network.ResourceRequest{Groups: test.groups}
				for _, g := range test.groups {
					p.Request.SameSubtree = append(p.Request.SameSubtree, g.ID)
				}
			}
			if test.groups != nil && test.groups[0].ID == "" {
				p.Request.SameSubtree = nil
			}
			c.network.ports = []network.Port{p}
			flavor := resource.Allocation{"root-a": {"VCPU": 4}}
			c.holds("web", flavor.Add(test.has))
			got := c.heal()
			if got.State != test.state || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("%+v", got)
			}
			if a := c.network.ports[0].Profile["allocation"]; !reflect.DeepEqual(a, test.allocation) {
				t.Errorf("allocation %v, want %v", a, test.allocation)
			}
			if slot := c.network.ports[0].Profile["pci_slot"]; slot != test.profile["pci_slot"] {
				t.Errorf("device %v", slot)
			}
			if held, want := c.placement.Held("web"), flavor.Add(test.holds); !held.Equal(want) {
				t.Errorf("Placement has %v, want %v", held, want)
			}
			if test.state == ports.Healed && c.heal().State != "" {
				t.Errorf("a healed server needs healing again")
			}
		})
	}
}

// While Placement does not answer, nothing is changed (row E14): neither a query nor a write that fails leaves a port
// with an allocation.
func TestHealingWithoutPlacement(t *testing.T) {
	for _, op := range []string{"Usages", "PutAllocation"} {
		c := newNICCloud(t, func(call placementtest.Call) (before, after error) {
			if call.Op == op {
				before = fault.New(fault.Unavailable, "Placement is down")
			}
			return before, nil
		})
		c.network.ports = []network.Port{{ID: "p", Device: "web", ActiveBinding: network.ActiveBinding{Host: "a",
			VNIC: "direct", Profile: map[string]any{"pci_slot": slot2}}, Request: &network.ResourceRequest{
			Groups: []network.RequestGroup{{ID: "bw", Resources: resource.Amounts{bandwidth.EgressBandwidth: 6000}}}}}}
		got := c.heal()
		_, has := c.network.ports[0].Profile["allocation"]
		if got.State != ports.NotAllocated || !strings.Contains(got.Reason, "Placement is down") || has {
			t.Errorf("%s: %+v; allocation %t", op, got, has)
		}
	}
}
