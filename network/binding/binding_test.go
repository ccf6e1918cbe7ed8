package binding

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/resource"
)

func ovsAgent() Agent {
	return Agent{Type: bandwidth.OpenVSwitch, AdminUp: true, Provider: "ovs",
		Devices: []Device{{Name: "br-ex", Provider: "br", PhysicalNetworks: []string{"physnet0"}}}}
}

func nicAgent() Agent {
	return Agent{Type: bandwidth.NICSwitch, AdminUp: true, Provider: "nic", Devices: []Device{
		{Name: "ens1f0", Provider: "pf0", PhysicalNetworks: []string{"physnet0"}, PCISlots: []string{"0000:06:02.0"}},
		{Name: "ens1f1", Provider: "pf1", PhysicalNetworks: []string{"physnet1"}, PCISlots: []string{"0000:06:03.0"}}}}
}

// TestBind has rows B1 to B7 of docs/behaviour/network.md.
func TestBind(t *testing.T) {
	flat := []Segment{{UUID: "s0", Type: "flat", PhysicalNetwork: "physnet0"}}
	both := append(flat, Segment{UUID: "s1", Type: "flat", PhysicalNetwork: "physnet1"})
	on := func(providers ...string) map[string]string {
		all := map[string]string{}
		for i, p := range providers {
			all[string(rune('a'+i))] = p
		}
		return all
	}
	off := nicAgent()
	off.AdminUp = false
	silent, noDirect := ovsAgent(), ovsAgent()
	silent.Silent, noDirect.VNICTypes = true, []string{"normal", "smart-nic", "vdpa"}
	copied := ovsAgent()
	copied.Devices = append(copied.Devices, Device{Name: "copy", Provider: "pf0", PhysicalNetworks: []string{"physnet0"}})
	bridges := Agent{Type: bandwidth.LinuxBridge, AdminUp: true, Tunnels: []string{"vxlan"},
		Bridges: map[string]string{"lan": "br-lan"}, Devices: []Device{{Name: "br-lan", PhysicalNetworks: []string{"lan"}}}}
	tunnel := []Segment{{UUID: "s2", Type: "vxlan"}}
	physical := func(kind string) []Segment { return []Segment{{UUID: "s3", Type: kind, PhysicalNetwork: "lan"}} }
	agents := []Agent{nicAgent(), ovsAgent()}
	for _, c := range []struct {
		name    string
		port    Port
		agents  []Agent
		want    Bound
		refusal string
	}{
		{"B1 bridge", Port{VNICType: "normal", Allocation: on("br"), Segments: flat}, agents,
			Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"B1 bridge and agent", Port{VNICType: "normal", Allocation: on("br", "ovs"), Segments: flat}, agents,
			Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"B3 another provider", Port{VNICType: "normal", Allocation: on("x"), Segments: flat}, agents, Bound{},
			"no agent of the host has reported all providers"},
		{"B3 a part", Port{VNICType: "normal", Allocation: on("br", "x"), Segments: flat}, agents, Bound{},
			"no agent of the host has reported all providers"},
		{"B3 two agents share it", Port{VNICType: "direct", Allocation: on("br", "pf0"), Segments: flat}, agents, Bound{},
			"no agent of the host has reported all providers"},
		{"B3 no allocation", Port{VNICType: "normal", Segments: flat}, agents,
			Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"B4 PF", Port{VNICType: "direct", Allocation: on("pf0"), Segments: flat}, agents,
			Bound{"hw_veb", bandwidth.NICSwitch, "s0", ""}, ""},
		{"B6 ambiguous", Port{VNICType: "direct", Allocation: on("pf0"), Segments: flat}, []Agent{nicAgent(), copied},
			Bound{}, "belong to several agents"},
		{"B6 no agents", Port{VNICType: "direct", Allocation: on("pf0"), Segments: flat}, nil, Bound{},
			"no agent of the host has reported all providers"},
		{"B7 direct on the bridge", Port{VNICType: "direct", Switchdev: true, Allocation: on("br"), Segments: flat}, agents,
			Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"direct on the bridge without offloading", Port{VNICType: "direct", Allocation: on("br"), Segments: flat}, agents,
			Bound{}, `only with {"capabilities": ["switchdev"]}`},
		{"direct without an allocation", Port{VNICType: "direct", Segments: flat}, agents,
			Bound{"hw_veb", bandwidth.NICSwitch, "s0", ""}, ""},
		{"offloaded without an allocation", Port{VNICType: "direct", Switchdev: true, Segments: flat}, agents,
			Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"offloaded on the NIC", Port{VNICType: "direct", Switchdev: true, Allocation: on("pf0"), Segments: flat}, agents,
			Bound{}, "no ports with the capability switchdev"},
		{"direct without an SR-IOV agent", Port{VNICType: "direct", Segments: flat}, []Agent{ovsAgent()}, Bound{},
			`only with {"capabilities": ["switchdev"]}`},
		{"a tunnel", Port{VNICType: "normal", Network: "0123456789abcdef", Segments: tunnel}, []Agent{ovsAgent(), bridges},
			Bound{"bridge", bandwidth.LinuxBridge, "s2", "brq0123456789a"}, ""},
		{"a tunnel of another agent", Port{VNICType: "normal", Segments: tunnel}, []Agent{ovsAgent()},
			Bound{"ovs", bandwidth.OpenVSwitch, "s2", ""}, ""},
		{"a bridge of the operator", Port{VNICType: "normal", Network: "n", Segments: physical("flat")}, []Agent{bridges},
			Bound{"bridge", bandwidth.LinuxBridge, "s3", "br-lan"}, ""},
		{"a VLAN of the operator's bridge", Port{VNICType: "normal", Network: "n", Segments: physical("vlan")},
			[]Agent{bridges}, Bound{"bridge", bandwidth.LinuxBridge, "s3", "brqn"}, ""},
		{"a VF for a Linux bridge agent", Port{VNICType: "direct", Segments: tunnel}, []Agent{bridges}, Bound{},
			"it does not bind ports of vnic type direct"},
		{"no tunnels", Port{VNICType: "normal", Segments: tunnel}, []Agent{{Type: bandwidth.LinuxBridge, AdminUp: true}},
			Bound{}, "none of its devices is connected"},
		{"a prohibited type", Port{VNICType: "direct", Switchdev: true, Segments: flat}, []Agent{noDirect}, Bound{},
			"[ovs_driver] vnic_type_prohibit_list prohibits the vnic type direct"},
		{"a permitted type", Port{VNICType: "normal", Segments: flat}, []Agent{noDirect},
			Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"vdpa", Port{VNICType: "vdpa", PCISlot: "0000:06:02.0", Segments: flat}, agents,
			Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"vdpa with a guarantee", Port{VNICType: "vdpa", Allocation: on("br"), PCISlot: "0000:06:02.0", Segments: flat},
			agents, Bound{"ovs", bandwidth.OpenVSwitch, "s0", "br-ex"}, ""},
		{"vdpa on the NIC", Port{VNICType: "vdpa", Allocation: on("pf0"), Segments: flat}, agents, Bound{},
			"does not bind ports of vnic type vdpa"},
		{"virtio-forwarder", Port{VNICType: "virtio-forwarder", Segments: flat}, agents, Bound{},
			"no agent binds ports of vnic type virtio-forwarder; use one of normal, direct, vdpa, macvtap"},
		{"a silent agent", Port{VNICType: "normal", Segments: flat}, []Agent{silent}, Bound{},
			"has stopped reporting itself"},
		{"a silent agent with the allocation", Port{VNICType: "normal", Allocation: on("br"), Segments: flat},
			[]Agent{silent, nicAgent()}, Bound{}, "the Open vSwitch agent: it has stopped reporting itself"},
		{"the VF of the PF", Port{VNICType: "direct", Allocation: on("pf0"), PCISlot: "0000:06:02.0", Segments: flat},
			agents, Bound{"hw_veb", bandwidth.NICSwitch, "s0", ""}, ""},
		{"a VF of another PF", Port{VNICType: "direct", Allocation: on("pf0"), PCISlot: "0000:06:03.0", Segments: flat},
			agents, Bound{}, "does not belong to the device whose bandwidth is allocated"},
		{"a PF, of which VFs are reported", Port{VNICType: "direct-physical", Allocation: on("pf0"),
			PCISlot: "0000:06:00.0", Segments: flat}, agents, Bound{"hostdev_physical", bandwidth.NICSwitch, "s0", ""}, ""},
		{"the segment of the device", Port{VNICType: "direct", Allocation: on("pf1"), Segments: both}, agents,
			Bound{"hw_veb", bandwidth.NICSwitch, "s1", ""}, ""},
		{"no segment of the device", Port{VNICType: "direct", Allocation: on("pf1"), Segments: flat}, agents, Bound{},
			"is connected to a segment"},
		{"an agent that is switched off", Port{VNICType: "macvtap", Segments: flat}, []Agent{off}, Bound{},
			"no agent of the host has reported itself"},
		{"a vnic type without a mechanism", Port{VNICType: "baremetal", Segments: flat}, agents, Bound{},
			"no agent binds ports of vnic type baremetal"},
		{"an overlay", Port{VNICType: "normal", Segments: []Segment{{UUID: "t", Type: "vxlan"}}}, agents,
			Bound{"ovs", bandwidth.OpenVSwitch, "t", ""}, ""},
		{"an overlay with offloading", Port{VNICType: "direct", Switchdev: true,
			Segments: []Segment{{UUID: "t", Type: "vxlan"}}}, agents, Bound{"ovs", bandwidth.OpenVSwitch, "t", ""}, ""},
		{"an overlay without a switch", Port{VNICType: "direct", Segments: []Segment{{UUID: "t", Type: "vxlan"}}},
			[]Agent{nicAgent()}, Bound{}, "is connected to a segment"},
		{"direct-physical without an agent", Port{VNICType: "direct-physical", Segments: flat}, nil,
			Bound{"hostdev_physical", bandwidth.NICSwitch, "s0", ""}, ""},
	} {
		got, refusal := Bind(c.port, c.agents)
		if got != c.want || (refusal == "") != (c.refusal == "") || !strings.Contains(refusal, c.refusal) {
			t.Errorf("%s: %+v (%s), want %+v (%s)", c.name, got, refusal, c.want, c.refusal)
		}
	}
}

func TestSupportsRule(t *testing.T) {
	for _, c := range []struct {
		agent bandwidth.AgentType
		vnic  string
		kind  qos.Type
		want  bool
	}{
		{"", "normal", qos.MinimumBandwidth, true}, {"", "normal", qos.MinimumPacketRate, true},
		{"", "direct", qos.MinimumPacketRate, true}, {"", "macvtap", qos.MinimumPacketRate, false},
		{bandwidth.NICSwitch, "direct", qos.MinimumPacketRate, false},
		{bandwidth.OpenVSwitch, "direct", qos.MinimumPacketRate, true},
		{"", "vdpa", qos.MinimumBandwidth, true}, {"", "virtio-forwarder", qos.MinimumBandwidth, false},
		{"", "direct-physical", qos.MinimumBandwidth, true}, {"", "baremetal", qos.MinimumBandwidth, false},
		{"", "direct", qos.DSCPMarking, true}, {"", "macvtap", qos.DSCPMarking, false}, {"", "", qos.DSCPMarking, true},
	} {
		if got := SupportsRule(c.agent, c.vnic, c.kind); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

const (
	egress = bandwidth.EgressBandwidth
	rate   = bandwidth.EgressPacketRate
)

// TestForPolicyAddsUp: for all pairs of a present share and a new request, the allocation before plus the difference is
// the allocation of the new request.
func TestForPolicyAddsUp(t *testing.T) {
	for old := range 3 {
		for next := range 3 {
			for _, packets := range []int{0, 5} {
				shares, groups := map[string]Share{}, []qos.Group{}
				if old > 0 {
					shares["o"] = Share{"br", resource.Amounts{egress: old}}
				}
				if packets > 0 {
					shares["p"] = Share{"ovs", resource.Amounts{rate: packets}}
				}
				if next > 0 {
					groups = append(groups, qos.Group{ID: "n", Type: qos.MinimumBandwidth,
						Resources: resource.Amounts{egress: next}})
				}
				c, refusal := ForPolicy(shares, groups)
				if refusal != "" {
					t.Fatal(refusal)
				}
				for _, g := range c.Place {
					c.Placed(g, "br")
				}
				now := resource.Allocation{"root": {"VCPU": 1}, "br": {egress: old}, "ovs": {rate: packets}}
				_, after, refusal := Amounts(now, c.Diff)
				got := Apply(now, after)
				want := map[resource.ProviderID]int{"br": next}
				if refusal != "" || got["br"][egress] != want["br"] || got["ovs"][rate] != 0 || got["root"]["VCPU"] != 1 {
					t.Errorf("from %d to %d, packets %d: %v (%s)", old, next, packets, got, refusal)
				}
				if next > 0 && !maps.Equal(c.Allocated["n"].Amounts, resource.Amounts{egress: next}) {
					t.Errorf("allocated %v", c.Allocated)
				}
			}
		}
	}
}

func TestForPolicyRefusesAnyAndDirection(t *testing.T) {
	any := resource.Amounts{bandwidth.PacketRate: 5}
	directed := resource.Amounts{rate: 5}
	for _, c := range [][2]resource.Amounts{{any, directed}, {directed, any}} {
		_, refusal := ForPolicy(map[string]Share{"o": {"ovs", c[0]}},
			[]qos.Group{{ID: "n", Type: qos.MinimumPacketRate, Resources: c[1]}})
		if refusal == "" {
			t.Errorf("from %v to %v is not refused", c[0], c[1])
		}
	}
}

func TestStateOf(t *testing.T) {
	type amounts = map[string]map[string]int
	before, after := amounts{"br": {"A": 1, "B": 0}}, amounts{"br": {"A": 0, "B": 2}}
	for _, c := range []struct {
		now  resource.Allocation
		want State
	}{
		{resource.Allocation{"br": {"A": 1}, "root": {"VCPU": 9}}, Before},
		{resource.Allocation{"br": {"B": 2}}, After},
		{resource.Allocation{"br": {"A": 1, "B": 2}}, Other},
		{resource.Allocation{}, Other},
	} {
		if got := StateOf(c.now, before, after); got != c.want {
			t.Errorf("%v: %s, want %s", c.now, got, c.want)
		}
	}
	if _, _, refusal := Amounts(resource.Allocation{"br": {"A": 1}},
		map[string]map[resource.Class]int{"br": {"A": -2}}); refusal == "" {
		t.Error("more than the consumer has is subtracted")
	}
	if got := Apply(resource.Allocation{"br": {"A": 1}}, amounts{"br": {"A": 0}}); !reflect.DeepEqual(got,
		resource.Allocation{}) {
		t.Errorf("an empty provider stays: %v", got)
	}
}

// TestEditsOfAnAllocation has the rows A1 to A5: differences of the allocation of a consumer, and what it is then.
func TestEditsOfAnAllocation(t *testing.T) {
	type a = resource.Amounts
	type d = map[resource.Class]int
	for _, c := range []struct {
		name string
		now  resource.Allocation
		diff map[string]d
		want resource.Allocation // nil: refused
	}{
		{"A1 more", resource.Allocation{"1": a{"A": 3, "B": 2}}, map[string]d{"1": {"A": 2, "B": 2}},
			resource.Allocation{"1": a{"A": 5, "B": 4}}},
		{"A2 all removed", resource.Allocation{"1": a{"A": 3, "B": 2}}, map[string]d{"1": {"A": -3, "B": -2}},
			resource.Allocation{}},
		{"A3 a class removed", resource.Allocation{"1": a{"A": 3, "B": 2}}, map[string]d{"1": {"A": -3, "B": 1}},
			resource.Allocation{"1": a{"B": 3}}},
		{"A3 a class for another", resource.Allocation{"1": a{"A": 3}}, map[string]d{"1": {"A": -3, "B": 1}},
			resource.Allocation{"1": a{"B": 1}}},
		{"A4 two providers", resource.Allocation{"1": a{"A": 3, "B": 2}, "2": a{"C": 1, "D": 5}},
			map[string]d{"1": {"A": -3, "B": 2}, "2": {"E": 3, "D": -5}},
			resource.Allocation{"1": a{"B": 4}, "2": a{"C": 1, "E": 3}}},
		{"A4 another provider", resource.Allocation{"1": a{"A": 3}, "2": a{"C": 1}}, map[string]d{"3": {"A": 1}},
			resource.Allocation{"1": a{"A": 3}, "2": a{"C": 1}, "3": a{"A": 1}}},
		{"A5 more than there is", resource.Allocation{"1": a{"A": 3}}, map[string]d{"1": {"A": -4}}, nil},
		{"A5 a class that is not there", resource.Allocation{"1": a{"A": 3}}, map[string]d{"1": {"B": -1}}, nil},
		{"A5 a provider that is not there", resource.Allocation{"1": a{"A": 3}}, map[string]d{"2": {"A": -1}}, nil},
	} {
		before, after, refusal := Amounts(c.now, c.diff)
		if (refusal != "") != (c.want == nil) {
			t.Errorf("%s: refusal %q", c.name, refusal)
		}
		if c.want == nil {
			continue
		}
		got := Apply(c.now, after)
		if !reflect.DeepEqual(got, c.want) || StateOf(c.now, before, after) != Before ||
			StateOf(got, before, after) != After {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
