package bandwidth

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

// sampleAgent returns an Open vSwitch agent with a bridge with bandwidth, one without, and tunnelled networks.
func sampleAgent() Agent {
	return Agent{Type: OpenVSwitch, DefaultHypervisor: "cmp1", Tunnelled: "rp_tunnelled",
		Mappings: []Mapping{{"physnet0", "br-ex"}, {"physnet-1", "br-other"}},
		Bandwidths: map[string]Rates{"br-ex": {Egress: set(1000), Ingress: set(2000)},
			"rp_tunnelled": {Egress: set(300)}},
		PacketRates: map[string]Rate{"cmp1": set(500)}, VNICTypes: []string{"normal", "direct"},
		Defaults: BuiltInDefaults(), PacketDefaults: BuiltInDefaults()}
}

// totals returns the totals of inventories.
func totals(d Device) resource.Amounts {
	out := resource.Amounts{}
	for class, inv := range d.Provider.Inventories {
		out[class] = inv.Total
	}
	return out
}

func TestProvidersOfAnAgent(t *testing.T) {
	a := sampleAgent()
	if wrong := a.Check(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	vnic := "CUSTOM_VNIC_TYPE_DIRECT CUSTOM_VNIC_TYPE_NORMAL"
	got := a.Providers()
	for i, want := range []struct{ name, parent, traits, totals string }{
		{"cmp1:Open vSwitch agent", "", vnic, "NET_PACKET_RATE_KILOPACKET_PER_SEC:500"},
		{"cmp1:Open vSwitch agent:br-ex", "cmp1:Open vSwitch agent", "CUSTOM_PHYSNET_PHYSNET0 " + vnic,
			"NET_BW_EGR_KILOBIT_PER_SEC:1000,NET_BW_IGR_KILOBIT_PER_SEC:2000"},
		{"cmp1:Open vSwitch agent:rp_tunnelled", "cmp1:Open vSwitch agent", "CUSTOM_NETWORK_TUNNEL_PROVIDER " + vnic,
			"NET_BW_EGR_KILOBIT_PER_SEC:300"},
	} {
		if i >= len(got) {
			t.Fatalf("%d providers", len(got))
		}
		parent := ""
		if n, ok := ParseName(want.parent); ok {
			parent = string(n.ID())
		}
		p := got[i].Provider
		if p.Name != want.name || string(p.Parent) != parent || traitText(p.Traits) != want.traits ||
			totals(got[i]).String() != want.totals {
			t.Errorf("provider %d is %s below %q with [%s] and %s; want %+v", i, p.Name, p.Parent, traitText(p.Traits),
				totals(got[i]), want)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d providers, want 3", len(got))
	}
}

func traitText(traits []resource.Trait) string {
	var out []string
	for _, t := range traits {
		out = append(out, string(t))
	}
	return strings.Join(out, " ")
}

func TestTunnelledNameOfAMappedBridgeHasBothTraits(t *testing.T) {
	a := sampleAgent()
	a.Tunnelled = "br-ex"
	delete(a.Bandwidths, "rp_tunnelled")
	d := a.Providers()[1]
	for _, want := range []resource.Trait{Tunnel, "CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"} {
		if !d.Provider.HasTrait(want) {
			t.Errorf("%s lacks %s", d.Provider.Name, want)
		}
	}
}

func TestUnsetAndZeroRatesHaveNoInventory(t *testing.T) {
	a := Agent{Type: NICSwitch, DefaultHypervisor: "cmp1", VNICTypes: []string{"direct"},
		Mappings:   []Mapping{{"physnet0", "ens1f0"}, {"physnet1", "ens1f0"}, {"physnet0", "ens1f1"}},
		Bandwidths: map[string]Rates{"ens1f0": {Egress: set(0)}, "ens1f1": {Ingress: set(9)}}}
	got := a.Providers()
	if len(got) != 3 || len(got[0].Provider.Inventories) != 0 || len(got[1].Provider.Inventories) != 0 {
		t.Fatalf("%+v", got)
	}
	if totals(got[2]).String() != "NET_BW_IGR_KILOBIT_PER_SEC:9" {
		t.Error(totals(got[2]))
	}
	if !got[1].Provider.HasTrait("CUSTOM_PHYSNET_PHYSNET0") || !got[1].Provider.HasTrait("CUSTOM_PHYSNET_PHYSNET1") {
		t.Errorf("a device of two physical networks has the traits %v", got[1].Provider.Traits)
	}
}

func TestHypervisorsOfDevices(t *testing.T) {
	a := sampleAgent()
	a.Hypervisors = map[string]string{"br-ex": "other", "br-other": "", "unknown": "x"}
	a.PacketRates = map[string]Rate{"third": set(1)}
	want := map[string]string{"br-ex": "other", "br-other": "cmp1", "rp_tunnelled": "cmp1"}
	if got := a.DeviceHypervisors(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var names []string
	for _, d := range a.Providers() {
		names = append(names, d.Provider.Name)
	}
	if want := []string{"cmp1:Open vSwitch agent", "cmp1:Open vSwitch agent:rp_tunnelled", "other:Open vSwitch agent",
		"other:Open vSwitch agent:br-ex", "third:Open vSwitch agent"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestDirectedPacketRates(t *testing.T) {
	a := sampleAgent()
	a.PacketRates, a.DirectedRates = nil, map[string]Rates{"cmp1": {set(100), set(200)}}
	if got := totals(a.Providers()[0]).String(); got !=
		"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC:100,NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC:200" {
		t.Error(got)
	}
}

func TestContradictingOptionsAreRefused(t *testing.T) {
	seven := 7
	for _, row := range []struct {
		change func(a *Agent)
		option Option
		words  string
	}{
		{func(a *Agent) { a.Bandwidths["br-x"] = Rates{} }, BandwidthsOption, "br-x is missing in bridge_mappings"},
		{func(a *Agent) { a.Type, a.Tunnelled = NICSwitch, "" }, BandwidthsOption,
			"rp_tunnelled is missing in physical_device_mappings"},
		{func(a *Agent) { a.DirectedRates = map[string]Rates{"cmp1": {}} }, PacketRatesOption, "either with or without"},
		{func(a *Agent) { a.Hypervisors = map[string]string{"br-ex": "a:b"} }, HypervisorsOption, "contains a colon"},
		{func(a *Agent) { a.DefaultHypervisor = "a:b" }, DefaultHypervisorOption, "contains a colon"},
		{func(a *Agent) { a.Hypervisors = map[string]string{"br-ex": strings.Repeat("h", 180)} }, HypervisorsOption,
			"Placement allows 200"},
		{func(a *Agent) { a.PacketDefaults.Reserved = &seven; a.PacketRates["cmp1"] = set(6) }, PacketDefaultsOption,
			"reserved 7 is greater than the total 6"},
		{func(a *Agent) { a.Mappings[0].Physnet = strings.Repeat("n", 250) }, BridgeMappingsOption, "Placement allows 255"},
	} {
		a := sampleAgent()
		row.change(&a)
		wrong := a.Check()
		if len(wrong) == 0 || wrong[0].Option != row.option || !strings.Contains(wrong[0].Sentence, row.words) {
			t.Errorf("%v, want an error of %s with %q", wrong, row.option, row.words)
		}
	}
}

func TestTraitNames(t *testing.T) {
	for got, want := range map[resource.Trait]resource.Trait{
		PhysnetTrait("some-physnet"):     "CUSTOM_PHYSNET_SOME_PHYSNET",
		PhysnetTrait("a--.b_c"):          "CUSTOM_PHYSNET_A_B_C",
		VNICTrait("somevnictype"):        "CUSTOM_VNIC_TYPE_SOMEVNICTYPE",
		VNICTrait("direct-physical"):     "CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL",
		Tunnel:                           "CUSTOM_NETWORK_TUNNEL_PROVIDER",
		PhysnetTrait("Physnet_0"):        PhysnetTrait("physnet-0"),
		VNICTrait("virtio-forwarder"):    "CUSTOM_VNIC_TYPE_VIRTIO_FORWARDER",
		PhysnetTrait("CUSTOM_PHYSNET_X"): "CUSTOM_PHYSNET_CUSTOM_PHYSNET_X",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for trait, want := range map[resource.Trait]bool{Tunnel: true, "CUSTOM_PHYSNET_A": true, "CUSTOM_VNIC_TYPE_B": true,
		"CUSTOM_FAST": false, "HW_NIC_ROOT": false} {
		if IsReported(trait) != want {
			t.Errorf("IsReported(%s) is %v", trait, !want)
		}
	}
}

func TestPhysicalNetworksWithOneTraitAreWarned(t *testing.T) {
	a := sampleAgent()
	if got := a.Warnings(); len(got) > 0 {
		t.Error(got)
	}
	a.Mappings = append(a.Mappings, Mapping{"Physnet_1", "br-third"})
	if got := a.Warnings(); len(got) != 1 || !strings.Contains(got[0], "physnet-1 and Physnet_1") {
		t.Error(got)
	}
}

func TestConfigurationsOfTheHeartbeat(t *testing.T) {
	a := sampleAgent()
	none := map[string]map[string]any{}
	defaults := map[string]any{"allocation_ratio": 1.0, "min_unit": 1, "step_size": 1, "reserved": 0}
	want := map[string]any{
		"bridge_mappings": map[string]string{"physnet0": "br-ex", "physnet-1": "br-other"},
		"resource_provider_bandwidths": map[string]map[string]any{"br-ex": {"egress": 1000, "ingress": 2000},
			"rp_tunnelled": {"egress": 300, "ingress": nil}},
		"resource_provider_inventory_defaults": defaults,
		"resource_provider_hypervisors": map[string]string{"br-ex": "cmp1", "br-other": "cmp1",
			"rp_tunnelled": "cmp1"},
		"resource_provider_packet_processing_without_direction":  map[string]map[string]any{"cmp1": {"any": 500}},
		"resource_provider_packet_processing_with_direction":     none,
		"resource_provider_packet_processing_inventory_defaults": defaults,
	}
	if got := a.Configurations(); !reflect.DeepEqual(got, want) {
		t.Errorf("\n%v\nwant\n%v", got, want)
	}
	nic := Agent{Type: NICSwitch, DefaultHypervisor: "cmp1",
		Mappings: []Mapping{{"physnet0", "ens1f0"}, {"physnet0", "ens1f1"}}}
	want = map[string]any{
		"device_mappings":                      map[string][]string{"physnet0": {"ens1f0", "ens1f1"}},
		"resource_provider_bandwidths":         none,
		"resource_provider_inventory_defaults": map[string]any{},
		"resource_provider_hypervisors":        map[string]string{"ens1f0": "cmp1", "ens1f1": "cmp1"},
	}
	if got := nic.Configurations(); !reflect.DeepEqual(got, want) {
		t.Errorf("\n%v\nwant\n%v", got, want)
	}
	if got := a.ProviderIDs(); len(got) != 3 || !slices.IsSorted(got) {
		t.Error(got)
	}
}

func TestOverlappingAgentsAreWarned(t *testing.T) {
	nic := Agent{Type: NICSwitch, Mappings: []Mapping{{"Physnet0", "ens1f0"}, {"physnet-1", "ens1f1"}},
		Bandwidths: map[string]Rates{"ens1f0": {}, "ens1f1": {}}, VNICTypes: []string{"direct", "macvtap"}}
	got := Overlaps([]Agent{sampleAgent(), nic}) // br-other of physnet-1 has no bandwidth
	if len(got) != 1 || !strings.Contains(got[0], "CUSTOM_PHYSNET_PHYSNET0 for the vnic type direct") ||
		!strings.Contains(got[0], "[ovs_driver] or [sriov_driver]") {
		t.Errorf("%q", got)
	}
	nic.VNICTypes = []string{"macvtap"}
	if got := Overlaps([]Agent{sampleAgent(), nic}); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
