package hosts

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
)

// A guest uses DHCP only where it is switched on and served; the modes of IPv6 that need a router are kept.
func TestBootMethod(t *testing.T) {
	for _, c := range []struct {
		dhcp   bool
		mode   string
		served bool
		want   string
	}{
		{false, "", false, "static"}, {false, "", true, "static"}, {true, "", false, "static"}, {true, "", true, "dhcp"},
		{true, "slaac", false, "slaac"}, {true, "slaac", true, "slaac"}, {false, "slaac", false, "slaac"},
		{true, "dhcpv6-stateless", false, "dhcpv6-stateless"},
		{true, "dhcpv6-stateful", true, "dhcpv6-stateful"}, {true, "dhcpv6-stateful", false, "static"},
	} {
		if got := bootMethod(network.Subnet{DHCP: c.dhcp, AddressMode: c.mode}, c.served); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// An address of IPv6 that no host can serve by DHCP is static, also if a DHCP port has an address in the subnet.
func TestBootMethodOfUnservedIPv6(t *testing.T) {
	for _, c := range []struct {
		cidr string
		mtu  int
		want string
	}{{"fd00::/64", 1450, "dhcp"}, {"fd00::/112", 0, "dhcp"}, {"fd00::/56", 1450, "static"},
		{"fd00::/64", 1279, "static"}, {"no network", 1450, "static"}} {
		known := bootNetworks{networks: []network.Network{{ID: "n", MTU: c.mtu}}, served: map[string]bool{"s": true},
			subnets: []network.Subnet{{ID: "s", IPVersion: 6, CIDR: c.cidr, DHCP: true}}}
		got := known.port(network.Port{Network: "n", FixedIPs: []network.FixedIP{{Subnet: "s", Address: "fd00::5"}}})
		if len(got.Addresses) != 1 || got.Addresses[0].Method != c.want {
			t.Errorf("%+v: %+v", c, got.Addresses)
		}
	}
}

// The guest of a whole PF adds the VLAN of the network itself; a VF and a bridge add it for the guest. An address of an
// unknown subnet is left out.
func TestBootPortOfAVLAN(t *testing.T) {
	known := bootNetworks{networks: []network.Network{{ID: "n", MTU: 9000, NetworkType: "vlan", SegmentationID: 7}},
		subnets: []network.Subnet{{ID: "s", Network: "n", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1", DNS: []string{"9.9.9.9"},
			Routes: []network.Route{{Destination: "10.9.0.0/16", NextHop: "10.0.0.2"}}}}}
	for vnic, vlan := range map[string]int{"normal": 0, "direct": 0, "direct-physical": 7} {
		got := known.port(network.Port{ID: "p", Network: "n", ActiveBinding: network.ActiveBinding{VNIC: vnic},
			FixedIPs: []network.FixedIP{{Subnet: "s", Address: "10.0.0.5"}, {Subnet: "gone", Address: "10.1.0.5"}}})
		want := host.BootPort{Port: "p", Network: "n", MTU: 9000, VLAN: vlan, Addresses: []host.BootAddress{{
			Method: "static", Address: "10.0.0.5", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1", DNS: []string{"9.9.9.9"},
			Routes: []host.BootRoute{{Destination: "10.9.0.0/16", NextHop: "10.0.0.2"}}}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", vnic, got, want)
		}
	}
}

// Only a VF is trusted. The profile may have the text of a boolean, as the openstack client writes it.
func TestTrustOfABootPort(t *testing.T) {
	for _, c := range []struct {
		vif   string
		value any
		want  bool
	}{{"hw_veb", "True", true}, {"hw_veb", true, true}, {"hw_veb", "false", false}, {"hw_veb", nil, false},
		{"ovs", "true", false}} {
		p := network.Port{ActiveBinding: network.ActiveBinding{VIF: c.vif, Profile: map[string]any{"trusted": c.value}}}
		if got := (bootNetworks{}).port(p); got.Trusted != c.want {
			t.Errorf("%+v: %v", c, got.Trusted)
		}
	}
}
