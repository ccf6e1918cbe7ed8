package nftables

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/securitygroup"
)

// TestStateOf converts what the network service returns for a host.
func TestStateOf(t *testing.T) {
	ssh := 22
	all := network.HostNetworks{
		Networks: []network.HostNetwork{
			{ID: "n1", Bridge: "br1", NetworkType: "vlan", Subnets: []network.HostSubnet{{CIDR: "192.0.2.0/24",
				Gateway: "192.0.2.1"}}},
			{ID: "n2", Bridge: "br2", NetworkType: "vxlan", Port: "p", Subnets: []network.HostSubnet{{CIDR: "10.0.0.0/24",
				Gateway: "10.0.0.1", Address: "10.0.0.1"}, {CIDR: "2001:db8::/64", Address: "2001:db8::5"}}},
			{ID: "n3", Bridge: "br3", NetworkType: "vxlan"}},
		Ports: []network.HostPort{{ID: "0123456789abcdef", MAC: "fa:16:3e:00:00:01", PortIdentity: network.PortIdentity{
			Bridge: "br1", PortSecurity: true, Groups: []string{"g"}, FixedIPs: []network.FixedIP{{Address: "10.0.0.2"}},
			Pairs: []network.AddressPair{{Address: "10.9.0.7/24", MAC: "fa:16:3e:00:00:02"}}}}},
		Groups: []network.HostSecurityGroup{{ID: "g", Stateless: true, Members: []string{"10.0.0.2", "10.9.0.0/24"},
			Rules: []network.HostSecurityGroupRule{{ID: "r", Direction: "ingress", EtherType: "IPv4", Protocol: "tcp",
				Min: &ssh, Max: &ssh, RemoteGroup: "g"}}}},
	}
	s, err := StateOf(all)
	prefix := netip.MustParsePrefix
	want := groupfilter.State{
		Ports: []groupfilter.Port{{Tap: "tap0123456789a", Bridge: "br1", Port: securitygroup.Port{ID: "0123456789abcdef",
			MAC: "fa:16:3e:00:00:01", Secured: true, Groups: []string{"g"},
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
			Pairs:     []securitygroup.Pair{{MAC: "fa:16:3e:00:00:02", Address: prefix("10.9.0.0/24")}}}}},
		Groups: map[string]securitygroup.Group{"g": {ID: "g", Stateless: true,
			Members: []netip.Prefix{prefix("10.0.0.2/32"), prefix("10.9.0.0/24")},
			Rules: []securitygroup.Rule{{ID: "r", Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", Min: &ssh,
				Max: &ssh, RemoteGroup: "g"}}}},
		Zones: map[string]groupfilter.Zone{
			"br1": {Number: s.Zones["br1"].Number, Inside: []netip.Prefix{prefix("192.0.2.0/24")}},
			"br3": {Number: s.Zones["br3"].Number, Routed: true},
			"br2": {Number: s.Zones["br2"].Number, Inside: []netip.Prefix{prefix("10.0.0.0/24"), prefix("2001:db8::/64")},
				Host: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::5")}, Own: "bron2",
				Routed: true}},
	}
	if err != nil || !reflect.DeepEqual(s, want) || s.Zones["br1"].Number == s.Zones["br2"].Number ||
		s.Zones["br1"].Number == 0 {
		t.Errorf("%v\n%+v\nwant\n%+v", err, s, want)
	}
	again, _ := StateOf(all)
	if !reflect.DeepEqual(again.Zones, s.Zones) {
		t.Error("the zones change")
	}
	for _, damage := range []func(*network.HostNetworks){
		func(h *network.HostNetworks) { h.Ports[0].FixedIPs[0].Address = "x" },
		func(h *network.HostNetworks) { h.Ports[0].Pairs[0].Address = "x" },
		func(h *network.HostNetworks) { h.Groups[0].Members[0] = "x" },
		func(h *network.HostNetworks) { h.Networks[1].Subnets[0].CIDR = "x" },
	} {
		damaged := network.HostNetworks{Networks: all.Networks,
			Ports:  []network.HostPort{all.Ports[0]},
			Groups: []network.HostSecurityGroup{all.Groups[0]}}
		damage(&damaged)
		if _, err := StateOf(damaged); err == nil {
			t.Errorf("accepted: %+v", damaged)
		}
		all.Ports[0].FixedIPs[0].Address, all.Ports[0].Pairs[0].Address = "10.0.0.2", "10.9.0.7/24"
		all.Groups[0].Members[0], all.Networks[1].Subnets[0].CIDR = "10.0.0.2", "10.0.0.0/24"
	}
}
