package groupfilter

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/securitygroup"
)

// testState is a port with address pairs and a group with a remote group.
func testState() State {
	port, code := 22, 3
	return State{
		Ports: []Port{{Tap: "tap1", Bridge: "br1", Port: securitygroup.Port{ID: "p1", MAC: "fa:16:3e:00:00:01", Secured: true,
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Groups: []string{"web", "unknown"},
			Pairs: []securitygroup.Pair{{Address: netip.MustParsePrefix("10.9.0.0/24")},
				{Address: netip.MustParsePrefix("2001:db8::/64")}}}},
			{Tap: "tap2", Bridge: "br1", Port: securitygroup.Port{ID: "p2"}}},
		Groups: map[string]securitygroup.Group{
			"web": {ID: "web", Rules: []securitygroup.Rule{
				{Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", Min: &port, Max: &port, RemoteGroup: "db"},
				{Direction: "ingress", EtherType: "IPv4", Protocol: "icmp", Min: &code, Max: &code, RemotePrefix: "192.0.2.0/24"},
				{Direction: "egress", EtherType: "IPv6"}}},
			"db": {ID: "db", Members: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"),
				netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("2001:db8::1/128")}},
			"unused": {ID: "unused", Rules: []securitygroup.Rule{{Direction: "ingress", EtherType: "IPv4"}}},
		},
		Zones: map[string]Zone{"br1": {Number: 5, Inside: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
			Host: []netip.Addr{netip.MustParseAddr("10.0.0.254")}}},
	}
}

// TestRender has lines that the text of a state must contain, and texts that it must not contain.
func TestRender(t *testing.T) {
	text := Render(testState()).Text()
	for _, want := range []string{
		"meta nfproto ipv4 ip saddr @members4-db meta l4proto 6 th dport 22-22 meta mark set 0x42455254 accept",
		"meta nfproto ipv4 ip saddr 192.0.2.0/24 meta l4proto 1 icmp type 3 icmp code 3 meta mark set",
		"elements = { 10.0.0.0/24 }", `"tap1" . fa:16:3e:00:00:01 . 10.0.0.1`, `"br1" . 10.0.0.1 : goto try-`,
		`iifname "tap1" ether saddr fa:16:3e:00:00:01 ip saddr 10.9.0.0/24 accept`,
		"@th,64,128 0x20010db8000000000000000000000000-0x20010db800000000ffffffffffffffff return",
		`oifname "br1" ip daddr 10.9.0.0/24 goto try-`, `iifname "br1" ip daddr 10.0.0.254 return`,
		`iifname "br1" ip saddr 10.0.0.0/24 ip daddr 10.0.0.0/24 ct zone set 5`, "jump in-unknown", "jump out-web",
		"fe80::f816:3eff:fe00:1", `"tap1" . 0xfa163e000001`, "add chain inet berth_groups version-",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, not := range []string{"tap2", "in-unused", "members6", "10.0.0.7"} {
		if strings.Contains(text, not) {
			t.Errorf("%q in\n%s", not, text)
		}
	}
}

// TestEqualStatesHaveEqualTables: the order of ports and groups does not count, and a change does.
func TestEqualStatesHaveEqualTables(t *testing.T) {
	a, b := testState(), testState()
	slices.Reverse(b.Ports)
	b.Ports[1].Groups = []string{"unknown", "web"}
	if Render(a).Text() != Render(b).Text() || Render(a).Changes(Render(b)) != "" {
		t.Error("equal states differ")
	}
	b.Ports[1].MAC = "fa:16:3e:00:00:02"
	changes := Render(a).Changes(Render(b))
	if changes == "" || strings.Contains(changes, "delete table") {
		t.Errorf("changes %q", changes)
	}
	if full := Render(b).Text(); len(changes) > len(full) {
		t.Errorf("the difference is longer than the text: %d, %d", len(changes), len(full))
	}
}

// TestNumbersOfProfiles: two lists of groups never have the same mark, and a list keeps its mark beside others.
func TestNumbersOfProfiles(t *testing.T) {
	s := State{}
	for i := range 3000 {
		s.Ports = append(s.Ports, Port{Port: securitygroup.Port{Secured: true, Groups: []string{strings.Repeat("g", i+1)}}})
	}
	marks := map[string]bool{}
	for _, p := range profilesOf(s) {
		if marks[p.mark] || p.mark == passed || !strings.HasPrefix(p.mark, "0x42") {
			t.Errorf("mark %s", p.mark)
		}
		marks[p.mark] = true
	}
	one := profilesOf(State{Ports: s.Ports[5:6]})
	if k := key(s.Ports[5].Groups); one[k].mark != profilesOf(s)[k].mark {
		t.Error("the mark of a profile depends on others")
	}
}

// TestBlocks decides about connections of the kernel.
func TestBlocks(t *testing.T) {
	s := testState()
	s.Ports[0].Secured = true
	c := s.Connections()
	at := netip.MustParseAddr
	tcp := func(zone int, from, to string, port int) Connection {
		return Connection{Zone: zone, Source: at(from), Destination: at(to), Protocol: securitygroup.TCP, Port: port}
	}
	for _, one := range []struct {
		name   string
		c      Connection
		blocks bool
	}{
		{"permitted", tcp(5, "10.0.0.7", "10.0.0.1", 22), false},
		{"another port", tcp(5, "10.0.0.7", "10.0.0.1", 23), true},
		{"routed by the host", tcp(0, "10.0.0.7", "10.0.0.1", 23), true},
		{"another zone", tcp(6, "10.0.0.7", "10.0.0.1", 23), false},
		{"egress", tcp(5, "10.0.0.1", "192.0.2.1", 80), true},
		{"of others", tcp(5, "10.0.0.7", "10.0.0.8", 23), false},
		{"ICMP", Connection{Zone: 5, Source: at("192.0.2.1"), Destination: at("10.0.0.1"), Protocol: 1, Type: 3, Code: 3},
			false},
	} {
		if got := c.Blocks(one.c); got != one.blocks {
			t.Errorf("%s: %t", one.name, got)
		}
	}
}
