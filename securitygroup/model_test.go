package securitygroup

import (
	"net/netip"
	"testing"
)

func address(text string) netip.Addr { return netip.MustParseAddr(text) }

// testPort is a port with an address of each family, an address pair, and two groups.
func testPort() (Port, map[string]Group) {
	p := Port{ID: "p", MAC: "fa:16:3e:00:00:01", Addresses: []netip.Addr{address("10.0.0.1"), address("2001:db8::1")},
		Pairs: []Pair{{"", netip.MustParsePrefix("10.9.0.0/24")}}, Secured: true, Groups: []string{"web", "db"}}
	return p, map[string]Group{
		"web": {ID: "web", Rules: []Rule{
			{ID: "out", Direction: Egress, EtherType: IPv4},
			{ID: "ssh", Direction: Ingress, EtherType: IPv4, Protocol: "tcp", Min: number(22), Max: number(23),
				RemotePrefix: "192.0.2.0/24"},
			{ID: "ping", Direction: Ingress, EtherType: IPv6, Protocol: "ipv6-icmp", Min: number(128)},
			{ID: "code", Direction: Ingress, EtherType: IPv4, Protocol: "icmp", Min: number(3), Max: number(1)}}},
		"db": {ID: "db", Rules: []Rule{{ID: "peers", Direction: Ingress, EtherType: IPv4, Protocol: "17",
			RemoteGroup: "peer"}}},
		"peer": {ID: "peer", Members: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32"),
			netip.MustParsePrefix("10.8.0.0/16")}},
	}
}

// TestDecide has packets, and the rule that permits them; no rule with "yes" for those that pass without one.
func TestDecide(t *testing.T) {
	p, groups := testPort()
	in := func(from, to string, protocol, port int) Packet {
		return Packet{Direction: Ingress, Source: address(from), Destination: address(to), Protocol: protocol, Port: port}
	}
	out := func(from, to string, protocol, sport, port int) Packet {
		return Packet{Direction: Egress, Source: address(from), Destination: address(to), Protocol: protocol,
			SourcePort: sport, Port: port}
	}
	icmp := func(packet Packet, kind, code int) Packet {
		packet.Type, packet.Code = kind, code
		return packet
	}
	forged := out("10.0.0.1", "10.0.0.9", TCP, 1, 2)
	forged.MAC = "fa:16:3e:00:00:02"
	for _, c := range []struct {
		name   string
		packet Packet
		want   string
	}{
		{"ssh", in("192.0.2.9", "10.0.0.1", TCP, 22), "ssh"},
		{"the last port", in("192.0.2.9", "10.0.0.1", TCP, 23), "ssh"},
		{"the next port", in("192.0.2.9", "10.0.0.1", TCP, 24), ""},
		{"another network", in("192.0.3.9", "10.0.0.1", TCP, 22), ""},
		{"another protocol", in("192.0.2.9", "10.0.0.1", UDP, 22), ""},
		{"a member", in("10.0.0.2", "10.0.0.1", UDP, 22), "peers"},
		{"a member by its pair", in("10.8.1.1", "10.0.0.1", UDP, 22), "peers"},
		{"not a member", in("10.0.0.3", "10.0.0.1", UDP, 22), ""},
		{"ping of IPv6", icmp(in("2001:db8::2", "2001:db8::1", ICMPv6, 0), 128, 0), "ping"},
		{"another type", icmp(in("2001:db8::2", "2001:db8::1", ICMPv6, 0), 129, 0), ""},
		{"type and code", icmp(in("10.0.0.3", "10.0.0.1", ICMP, 0), 3, 1), "code"},
		{"another code", icmp(in("10.0.0.3", "10.0.0.1", ICMP, 0), 3, 2), ""},
		{"out", out("10.0.0.1", "192.0.2.1", TCP, 1, 2), "out"},
		{"out by a pair", out("10.9.0.7", "192.0.2.1", TCP, 1, 2), "out"},
		{"out with another address", out("10.0.0.2", "192.0.2.1", TCP, 1, 2), ""},
		{"out with another MAC", forged, ""},
		{"out, IPv6", out("2001:db8::1", "2001:db8::2", TCP, 1, 2), ""},
		{"DHCP request", out("0.0.0.0", "255.255.255.255", UDP, 68, 67), "yes"},
		{"DHCP renewal", out("10.0.0.1", "10.0.0.254", UDP, 68, 67), "yes"},
		{"DHCP request of another", out("10.0.0.2", "10.0.0.254", UDP, 68, 67), ""},
		{"DHCP answer", Packet{Direction: Ingress, Source: address("10.0.0.254"), Destination: address("10.0.0.1"),
			Protocol: UDP, SourcePort: 67, Port: 68}, "yes"},
		{"a DHCP server", out("10.0.0.1", "10.0.0.9", UDP, 67, 68), ""},
		{"DHCPv6 request", out("fe80::f816:3eff:fe00:1", "ff02::1:2", UDP, 546, 547), "yes"},
		{"neighbour solicitation", icmp(out("::", "ff02::1", ICMPv6, 0, 0), 135, 0), "yes"},
		{"forged neighbour", icmp(out("2001:db8::7", "ff02::1", ICMPv6, 0, 0), 136, 0), ""},
		{"router advertisement", icmp(out("fe80::f816:3eff:fe00:1", "ff02::1", ICMPv6, 0, 0), 134, 0), ""},
		{"of a router", icmp(in("fe80::1", "ff02::1", ICMPv6, 0), 134, 0), "yes"},
	} {
		d := Decide(p, groups, c.packet)
		if d.Allowed != (c.want != "") || c.want != "yes" && d.Rule != c.want || d.Reason == "" {
			t.Errorf("%s: %+v, want %q", c.name, d, c.want)
		}
	}
	p.Groups = nil
	if d := Decide(p, groups, in("192.0.2.9", "10.0.0.1", TCP, 22)); d.Allowed {
		t.Errorf("without groups: %+v", d)
	}
	p.Secured = false
	if d := Decide(p, groups, forged); !d.Allowed {
		t.Errorf("without port security: %+v", d)
	}
}
