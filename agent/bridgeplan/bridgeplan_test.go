package bridgeplan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
)

const id = "0a1b2c3d-4444-4000-8000-000000000001"

func routed() network.HostNetwork {
	return network.HostNetwork{ID: id, Bridge: "brq0a1b2c3d-44", NetworkType: "vxlan", SegmentationID: 7, MTU: 1450,
		Port: "own", MAC: "fa:16:3e:00:00:01", Peers: []string{"198.51.100.3", "198.51.100.2"},
		Subnets: []network.HostSubnet{{ID: "s", IPVersion: 4, CIDR: "10.0.0.0/24", Gateway: "10.0.0.1", DHCP: true,
			Address: "10.0.0.9"}}}
}

func provider(kind string) network.HostNetwork {
	n := routed()
	n.NetworkType, n.PhysicalNetwork, n.Peers = kind, "lan", nil
	return n
}

var own = Host{TunnelIP: "198.51.100.1", TunnelPort: 4789, Interfaces: map[string]string{"lan": "eth1"}}

// perform applies operations to links, as the kernel does.
func perform(present map[string]Link, list []Operation) {
	for _, o := range list {
		l := present[o.Link.Name]
		switch o.Verb {
		case Create:
			l = o.Link
			l.MAC, l.MTU, l.Up, l.Master, l.Addresses, l.Ends, l.Settings = "", 1500, false, "", nil, nil, map[string]string{}
			if l.Peer != "" {
				present[l.Peer] = Link{Name: l.Peer, Kind: Veth, Owner: l.Owner, Peer: l.Name, MTU: 1500,
					Settings: map[string]string{}}
			}
		case Delete:
			delete(present, o.Link.Name)
			delete(present, o.Link.Peer)
			continue
		case SetMAC:
			l.MAC = o.Link.MAC
		case SetMTU:
			l.MTU = o.Link.MTU
		case SetMaster:
			l.Master = o.Link.Master
		case SetUp:
			l.Up = true
		case AddAddress:
			l.Addresses = append(slices.Clone(l.Addresses), o.Address)
		case DelAddress:
			l.Addresses = slices.DeleteFunc(slices.Clone(l.Addresses), func(a Address) bool { return a == o.Address })
		case AddEnd:
			l.Ends = append(slices.Clone(l.Ends), o.Value)
		case DelEnd:
			l.Ends = slices.DeleteFunc(slices.Clone(l.Ends), func(end string) bool { return end == o.Value })
		case Set:
			l.Settings = maps.Clone(l.Settings)
			l.Settings[o.Name] = o.Value
		}
		present[o.Link.Name] = l
	}
}

// settle performs what the host needs for networks, and checks that nothing remains to be done.
func settle(t *testing.T, present map[string]Link, networks ...network.HostNetwork) map[string]string {
	t.Helper()
	links, refused := own.Links(networks)
	list, more := Operations(links, present, nil)
	maps.Copy(refused, more)
	perform(present, list)
	if list, _ = Operations(links, present, nil); len(list) != 0 && len(refused) == 0 {
		t.Errorf("operations that remain: %v", list)
	}
	return refused
}

// TestOperations makes a routed network, changes it, interrupts its making after each operation, and removes it.
func TestOperations(t *testing.T) {
	operator := map[string]Link{"eth0": {Name: "eth0", Up: true}, "virbr0": {Name: "virbr0", Kind: Bridge}}
	present := maps.Clone(operator)
	if refused := settle(t, present, routed()); len(refused) != 0 {
		t.Fatal(refused)
	}
	bridge, tunnel, host := present["brq0a1b2c3d-44"], present["vxlan-7"], present["bro0a1b2c3d-44"]
	if bridge.MAC != "02:0a:1b:2c:3d:44" || bridge.Addresses[0].Prefix.String() != "10.0.0.1/24" ||
		!bridge.Addresses[0].NoRoute || bridge.Settings["ipv4/conf/brq0a1b2c3d-44/arp_ignore"] != "1" {
		t.Errorf("bridge %+v", bridge)
	}
	if tunnel.Master != bridge.Name || !slices.Equal(tunnel.Ends, []string{"198.51.100.2", "198.51.100.3"}) {
		t.Errorf("tunnel %+v", tunnel)
	}
	if host.Addresses[0].NoRoute || host.MAC != "fa:16:3e:00:00:01" || present[host.Peer].Master != bridge.Name {
		t.Errorf("own interface %+v", host)
	}
	if rules := own.Rules([]network.HostNetwork{routed()}); !strings.Contains(rules, "udp dport 4789 drop") {
		t.Errorf("guests can send to the tunnels of other hosts: %s", rules)
	}
	changed := routed()
	changed.MTU, changed.Peers = 1400, []string{"198.51.100.4"}
	changed.Subnets[0].Gateway, changed.Subnets[0].Address = "", "10.0.0.8"
	settle(t, present, changed)
	if b := present["brq0a1b2c3d-44"]; b.MTU != 1400 || len(b.Addresses) != 0 {
		t.Errorf("without a gateway: %+v", b)
	}
	if a := present["bro0a1b2c3d-44"].Addresses; len(a) != 1 || a[0].Prefix.String() != "10.0.0.8/24" || !a[0].NoRoute {
		t.Errorf("own address %v", a)
	}
	links, _ := own.Links([]network.HostNetwork{routed()})
	all, _ := Operations(links, operator, nil)
	for n := range all {
		part := maps.Clone(operator)
		perform(part, all[:n])
		if refused := settle(t, part, routed()); len(refused) != 0 {
			t.Errorf("after %d operations: %v", n, refused)
		}
	}
	settle(t, present)
	if !maps.EqualFunc(present, operator, func(a, b Link) bool { return a.Name == b.Name }) {
		t.Errorf("left: %v", present)
	}
}

// TestForeignLinks neither changes nor removes links that Berth has not made, and says what prevents a network.
func TestForeignLinks(t *testing.T) {
	for name, c := range map[string]struct {
		network network.HostNetwork
		link    Link
		want    string
	}{
		"the bridge's name": {routed(), Link{Name: "brq0a1b2c3d-44", Kind: Bridge, Up: true}, "Berth has not made"},
		"an interface with addresses": {provider("flat"), Link{Name: "eth1", Addresses: make([]Address, 1)},
			"which it would lose"},
		"an interface with a global address": {provider("flat"), Link{Name: "eth1", Addresses: []Address{{
			Prefix: netip.MustParsePrefix("2001:db8::7/64")}}}, "which it would lose"},
		"an interface with a unique local address": {provider("flat"), Link{Name: "eth1", Addresses: []Address{{
			Prefix: netip.MustParsePrefix("fd00::7/64")}}}, "which it would lose"},
		"an interface in another bridge": {provider("flat"), Link{Name: "eth1", Master: "br0"}, "belongs to br0"},
		"no interface":                   {provider("flat"), Link{Name: "eth7"}, "eth1 does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			present := map[string]Link{c.link.Name: c.link}
			var all string
			for _, why := range settle(t, present, c.network) {
				all += why
			}
			if !strings.Contains(all, c.want) {
				t.Errorf("%q", all)
			}
			if now := present[c.link.Name]; now.Up != c.link.Up || now.Master != c.link.Master || now.Kind != c.link.Kind {
				t.Errorf("changed: %+v", now)
			}
		})
	}
	linkLocal := map[string]Link{"eth1": {Name: "eth1", Addresses: []Address{{
		Prefix: netip.MustParsePrefix("fe80::7/64")}}}}
	if refused := settle(t, linkLocal, provider("flat")); len(refused) != 0 {
		t.Errorf("an interface with a link-local address: %v", refused)
	}
	present := map[string]Link{"brq0a1b2c3d-44": {Name: "brq0a1b2c3d-44", Kind: Bridge}}
	if refused := settle(t, present, routed()); len(refused) != 0 {
		t.Errorf("a bridge that a killed process has left: %v", refused)
	}
}

// TestProviderNetworks connects flat networks and VLANs by an interface and by a bridge of the operator.
func TestProviderNetworks(t *testing.T) {
	present := map[string]Link{"eth1": {Name: "eth1"}}
	settle(t, present, provider("vlan"))
	if v := present["eth1.7"]; v.Kind != VLAN || v.On != "eth1" || v.Master != "brq0a1b2c3d-44" {
		t.Errorf("VLAN %+v", v)
	}
	if b := present["brq0a1b2c3d-44"]; len(b.Addresses) != 0 || b.Settings["ipv4/conf/brq0a1b2c3d-44/forwarding"] != "0" {
		t.Errorf("a host routes a provider network: %+v", b)
	}
	if a := present["bro0a1b2c3d-44"].Addresses; len(a) != 1 || !a[0].NoRoute {
		t.Errorf("the own address has a route: %v", a)
	}
	operators := Host{Bridges: map[string]string{"lan": "br-lan"}}
	n := provider("flat")
	n.Bridge = "br-lan"
	links, refused := operators.Links([]network.HostNetwork{n})
	if len(refused) != 0 || len(links) != 2 || links[1].Master != "br-lan" {
		t.Errorf("a bridge of the operator: %+v %v", links, refused)
	}
	if rules := operators.Rules([]network.HostNetwork{n}); strings.Contains(rules, `"br-lan"`) {
		t.Errorf("rules for what passes the operator's bridge: %s", rules)
	}
	if _, refused = (Host{}).Links([]network.HostNetwork{routed(), provider("flat")}); len(refused) != 1 {
		t.Errorf("a host without options: %v", refused)
	}
}

// TestServers computes the files of DHCP servers.
func TestServers(t *testing.T) {
	n := routed()
	n.Names = []network.HostName{{Name: "web", Address: "10.0.0.5"}, {Name: "bad name\n", Address: "10.0.0.6"},
		{Name: "deb.debian.org", Address: "10.0.0.7"}}
	ports := []network.HostPort{{MAC: "fa:16:3e:00:00:05", PortIdentity: network.PortIdentity{Network: id, Name: "web",
		FixedIPs: []network.FixedIP{{Subnet: "s", Address: "10.0.0.5"}}}}}
	list := Servers(network.HostNetworks{Networks: []network.HostNetwork{n}, Ports: ports})
	if len(list) != 1 || list[0].Hosts != "fa:16:3e:00:00:05,10.0.0.5,web\n" ||
		list[0].Names != "10.0.0.5 web\n10.0.0.6 badname\n10.0.0.7 deb.debian.org.openstacklocal\n" ||
		list[0].Options != "tag:subnet0,option:dns-server,10.0.0.1\ntag:subnet0,option:mtu,1450\n"+
			"tag:subnet0,option:router,10.0.0.1\n" {
		t.Errorf("%+v", list)
	}
	for _, line := range []string{"interface=brq0a1b2c3d-44", "dhcp-range=set:subnet0,10.0.0.0,static,255.255.255.0,86400",
		"domain=openstacklocal"} {
		if !slices.Contains(strings.Split(list[0].Config, "\n"), line) {
			t.Errorf("no line %s in %s", line, list[0].Config)
		}
	}
	n = provider("flat")
	n.Subnets[0].DNS, n.Subnets[0].Routes = []string{"192.0.2.53"}, []network.Route{{Destination: "10.9.0.0/16",
		NextHop: "10.0.0.2"}}
	list = Servers(network.HostNetworks{Networks: []network.HostNetwork{n}})
	if !strings.Contains(list[0].Options, "classless-static-route,10.9.0.0/16,10.0.0.2,169.254.169.254/32,10.0.0.9,"+
		"0.0.0.0/0,10.0.0.1\n") || !strings.Contains(list[0].Config, "interface=bro") {
		t.Errorf("a provider network: %+v", list)
	}
	n.Subnets[0].DNS = nil
	list = Servers(network.HostNetworks{Networks: []network.HostNetwork{n}})
	if !strings.Contains(list[0].Options, "tag:subnet0,option:dns-server\n") {
		t.Errorf("a name server whose answers do not arrive: %s", list[0].Options)
	}
	n.Subnets[0].DHCP = false
	if list = Servers(network.HostNetworks{Networks: []network.HostNetwork{n}}); len(list) != 0 {
		t.Errorf("without enable_dhcp: %+v", list)
	}
}

// TestForgedSources: nothing that a guest sends to the host with an address outside of its subnets is taken for an
// answer.
func TestForgedSources(t *testing.T) {
	n := routed()
	n.Subnets = append(n.Subnets, network.HostSubnet{ID: "t", IPVersion: 4, CIDR: "10.3.0.0/24"})
	_, toHost, _ := strings.Cut(own.Rules([]network.HostNetwork{n}), "chain to_host {\n")
	lines := strings.Split(toHost, "\n")
	for i, want := range []string{"udp sport 68 udp dport 67 accept",
		"ip6 saddr fe80::/10 udp sport 546 udp dport 547 accept",
		"icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept",
		`iifname { "brq0a1b2c3d-44", "bro0a1b2c3d-44" } meta nfproto ipv4 ` +
			"ip saddr != 10.0.0.0/24 ip saddr != 10.3.0.0/24 drop",
		`iifname { "brq0a1b2c3d-44", "bro0a1b2c3d-44" } ip6 saddr != fe80::/10 drop`, "icmp type redirect drop",
		"icmpv6 type nd-redirect drop", "ct state established,related accept"} {
		if strings.TrimSpace(lines[i]) != want {
			t.Errorf("line %d: %q, want %q", i, lines[i], want)
		}
	}
}

// TestMetadataSides: the interfaces by which guests reach the metadata service by each version of IP, and the rules
// that lead there.
func TestMetadataSides(t *testing.T) {
	six := network.HostSubnet{ID: "6", IPVersion: 6, CIDR: "fd00::/64", Gateway: "fd00::1", Address: "fd00::9"}
	const bridge, own6 = "brq0a1b2c3d-44", "bro0a1b2c3d-44"
	const six80 = `iifname "` + bridge + `" ip6 daddr fe80::a9fe:a9fe tcp dport 80 dnat ip6 to [fe80::a9fe:a9fe]:9697`
	for name, c := range map[string]struct {
		change func(n *network.HostNetwork)
		sides  []string
		six    bool
	}{
		"IPv4 only": {func(*network.HostNetwork) {}, []string{bridge}, false},
		"both": {func(n *network.HostNetwork) { n.Subnets = append(n.Subnets, six) }, []string{bridge},
			true},
		"IPv6 only": {func(n *network.HostNetwork) { n.Subnets, n.Port = []network.HostSubnet{six}, "" }, []string{bridge},
			true},
		"IPv4 without a gateway": {func(n *network.HostNetwork) {
			n.Subnets[0].Gateway = ""
			n.Subnets = append(n.Subnets, six)
		}, []string{own6, bridge}, true},
		"IPv6 without a gateway": {func(n *network.HostNetwork) {
			without := six
			without.Gateway = ""
			n.Subnets = append(n.Subnets, without)
		}, []string{bridge}, false},
		"a provider network": {func(n *network.HostNetwork) {
			n.NetworkType, n.Subnets = "vlan", append(n.Subnets, six)
		}, []string{own6}, false},
		"nothing of the host": {func(n *network.HostNetwork) { n.Subnets, n.Port = nil, "" }, nil, false},
	} {
		n := routed()
		c.change(&n)
		rules := own.Rules([]network.HostNetwork{n})
		accepts := strings.Contains(rules, `iifname "`+bridge+`" ip6 daddr fe80::a9fe:a9fe tcp dport 9697 accept`)
		if got := ServedBy(n); !slices.Equal(got, c.sides) || strings.Contains(rules, six80) != c.six || accepts != c.six {
			t.Errorf("%s: %v, accepted %v\n%s", name, got, accepts, rules)
		}
	}
}

// TestIPv6Servers: the words of the modes of IPv6, and the subnets that dnsmasq cannot serve.
func TestIPv6Servers(t *testing.T) {
	port := network.HostPort{MAC: "fa:16:3e:00:00:05", PortIdentity: network.PortIdentity{Network: id, Name: "web",
		FixedIPs: []network.FixedIP{{Subnet: "6", Address: "fd00::5"}}}}
	for name, c := range map[string]struct {
		change func(n *network.HostNetwork, s *network.HostSubnet)
		want   string
	}{
		"slaac": {func(_ *network.HostNetwork, s *network.HostSubnet) { s.IPv6Mode = "slaac" }, "ra-only,64,86400"},
		"stateless": {func(_ *network.HostNetwork, s *network.HostSubnet) { s.IPv6Mode = "dhcpv6-stateless" },
			"ra-stateless,64"},
		"stateful": {func(_ *network.HostNetwork, s *network.HostSubnet) { s.IPv6Mode = "dhcpv6-stateful" }, "static,64"},
		"no mode":  {func(*network.HostNetwork, *network.HostSubnet) {}, "static,64"},
		"long":     {func(_ *network.HostNetwork, s *network.HostSubnet) { s.CIDR = "fd00::/112" }, "static,112"},
		"long slaac": {func(_ *network.HostNetwork, s *network.HostSubnet) { s.CIDR, s.IPv6Mode = "fd00::/112", "slaac" },
			""},
		"short":      {func(_ *network.HostNetwork, s *network.HostSubnet) { s.CIDR = "fd00::/56" }, ""},
		"no gateway": {func(_ *network.HostNetwork, s *network.HostSubnet) { s.Gateway = "" }, ""},
		"no DHCP":    {func(_ *network.HostNetwork, s *network.HostSubnet) { s.DHCP = false }, ""},
		"provider":   {func(n *network.HostNetwork, _ *network.HostSubnet) { n.NetworkType = "vlan" }, ""},
		"small MTU":  {func(n *network.HostNetwork, _ *network.HostSubnet) { n.MTU = 1279 }, ""},
	} {
		n := routed()
		s := network.HostSubnet{ID: "6", IPVersion: 6, CIDR: "fd00::/64", Gateway: "fd00::1", DHCP: true, Address: "fd00::9"}
		c.change(&n, &s)
		n.Subnets = append(n.Subnets, s)
		one := Servers(network.HostNetworks{Networks: []network.HostNetwork{n}, Ports: []network.HostPort{port}})[0]
		if got := strings.Contains(one.Config, "enable-ra"); got != (c.want != "") ||
			!strings.Contains(one.Config, c.want) || got != strings.Contains(one.Hosts, "fa:16:3e:00:00:05,[fd00::5],web\n") ||
			got != strings.Contains(one.Options, "tag:subnet1,option6:dns-server,[fd00::1]\n") {
			t.Errorf("%s: %+v", name, one)
		}
	}
}

// TestDHCPv6BesideAnotherRouter: in a network that the host does not route it serves the modes with DHCPv6 by its own
// interface, advertises nothing, and names no name server of its own.
func TestDHCPv6BesideAnotherRouter(t *testing.T) {
	six := network.HostSubnet{ID: "6", IPVersion: 6, CIDR: "fd00::/64", Gateway: "fd00::1", DHCP: true, Address: "fd00::9"}
	ports := []network.HostPort{{MAC: "fa:16:3e:00:00:05", PortIdentity: network.PortIdentity{Network: id, Name: "web",
		FixedIPs: []network.FixedIP{{Subnet: "6", Address: "fd00::5"}}}}}
	for name, c := range map[string]struct {
		change func(n *network.HostNetwork, s *network.HostSubnet)
		served bool
	}{
		"stateful": {func(_ *network.HostNetwork, s *network.HostSubnet) { s.IPv6Mode = network.DHCPv6Stateful }, true},
		"stateless": {func(_ *network.HostNetwork, s *network.HostSubnet) { s.IPv6Mode = network.DHCPv6Stateless },
			true},
		"slaac":   {func(_ *network.HostNetwork, s *network.HostSubnet) { s.IPv6Mode = network.SLAAC }, false},
		"no mode": {func(*network.HostNetwork, *network.HostSubnet) {}, false},
		"short": {func(_ *network.HostNetwork, s *network.HostSubnet) {
			s.CIDR, s.IPv6Mode = "fd00::/56", network.DHCPv6Stateful
		}, false},
		"small MTU": {func(n *network.HostNetwork, s *network.HostSubnet) {
			n.MTU, s.IPv6Mode = 1279, network.DHCPv6Stateful
		}, false},
		"no DHCP": {func(_ *network.HostNetwork, s *network.HostSubnet) {
			s.DHCP, s.IPv6Mode = false, network.DHCPv6Stateful
		}, false},
	} {
		n, s := provider("flat"), six
		c.change(&n, &s)
		n.Subnets = append(n.Subnets, s)
		one := Servers(network.HostNetworks{Networks: []network.HostNetwork{n}, Ports: ports})[0]
		if got := strings.Contains(one.Config, "dhcp-range=set:subnet1,fd00::,static,64,86400\n"); got != c.served ||
			strings.Contains(one.Config, "enable-ra") || !strings.Contains(one.Config, "port=0\n") ||
			strings.Contains(one.Options, "dns-server,") {
			t.Errorf("%s: %+v", name, one)
		}
		present := map[string]Link{"eth1": {Name: "eth1"}}
		settle(t, present, n)
		link, bridge := present[OwnInterface(id)], present[n.Bridge]
		if got := slices.Contains(link.Addresses, Address{netip.MustParsePrefix("fd00::9/64"), true}); got != c.served {
			t.Errorf("%s: own addresses %v", name, link.Addresses)
		}
		off := map[bool]string{true: "0", false: "1"}[c.served]
		if link.Settings["ipv6/conf/"+link.Name+"/disable_ipv6"] != off ||
			bridge.Settings["ipv6/conf/"+bridge.Name+"/disable_ipv6"] != "1" ||
			c.served && link.Settings["ipv6/conf/"+link.Name+"/forwarding"] != "0" {
			t.Errorf("%s: settings %v, bridge %v", name, link.Settings, bridge.Settings)
		}
		n.Subnets[1].UserChosen = true
		taken := map[string]Link{"eth0": {Name: "eth0", Addresses: []Address{{Prefix: netip.MustParsePrefix("fd00::9/48")}}}}
		if _, refused := own.Admit([]network.HostNetwork{n}, taken); (refused["6"] != "") != c.served {
			t.Errorf("%s: an address of the host: %v", name, refused)
		}
		n.Subnets[1].Address = ""
		if got := Shortages([]network.HostNetwork{n}); (len(got) == 1) != c.served {
			t.Errorf("%s: without an address: %v", name, got)
		}
		left, conditions := WithoutIPv6([]network.HostNetwork{n})
		if (len(conditions) == 1) != c.served || left[0].Subnets[1].DHCP != (n.Subnets[1].DHCP && !c.served) {
			t.Errorf("%s: a kernel without IPv6: %v %+v", name, conditions, left)
		}
	}
}

// TestNameServersWithZones: a zone, which may have any bytes, does not reach the options of a server.
func TestNameServersWithZones(t *testing.T) {
	servers := []string{"fe80::1%x\noption:router,10.0.0.66", "FD00::53"}
	got := options6(routed(), network.HostSubnet{IPVersion: 6, DNS: servers}, "tag:t", "cloud.test")
	if got != "tag:t,option6:dns-server,[fd00::53]\ntag:t,option6:domain-search,cloud.test\n" {
		t.Errorf("%q", got)
	}
	four := network.HostSubnet{IPVersion: 4, DNS: []string{servers[0], "192.0.2.53"}}
	if got = optionsOf(routed(), four, "tag:t"); !strings.HasPrefix(got, "tag:t,option:dns-server,192.0.2.53\n") {
		t.Errorf("%q", got)
	}
}

// TestIPv6Links: the gateway of a subnet of IPv6 is on the bridge, and a host without such a subnet has no IPv6 there.
func TestIPv6Links(t *testing.T) {
	for gateway, want := range map[string]string{
		"fd00::1":         "[{10.0.0.1/24 true} {fd00::1/64 true} {fe80::a9fe:a9fe/64 true}]",
		"fe80::1":         "[{10.0.0.1/24 true} {fe80::1/64 true} {fd00::9/64 true} {fe80::a9fe:a9fe/64 true}]",
		"fe80::a9fe:a9fe": "[{10.0.0.1/24 true} {fe80::a9fe:a9fe/64 true} {fd00::9/64 true}]",
		"":                "[{10.0.0.1/24 true}]"} {
		present, n := map[string]Link{}, routed()
		n.Subnets = append(n.Subnets, network.HostSubnet{ID: "6", IPVersion: 6, CIDR: "fd00::/64", Gateway: gateway,
			Address: "fd00::9"})
		settle(t, present, n)
		b, o := present[n.Bridge], present[OwnInterface(id)]
		if got := fmt.Sprint(b.Addresses); got != want {
			t.Errorf("gateway %s: %s, want %s", gateway, got, want)
		}
		off := map[bool]string{true: "0", false: "1"}[gateway != ""]
		for _, l := range []Link{b, o} {
			if got := l.Settings["ipv6/conf/"+l.Name+"/disable_ipv6"]; got != off {
				t.Errorf("gateway %q: disable_ipv6 of %s is %s", gateway, l.Name, got)
			}
		}
		if (len(o.Addresses) == 2) != (gateway != "") {
			t.Errorf("gateway %q: own addresses %v", gateway, o.Addresses)
		}
		settle(t, present, routed())
		if got := fmt.Sprint(present[n.Bridge].Addresses); got != "[{10.0.0.1/24 true}]" {
			t.Errorf("without the subnet: %s", got)
		}
	}
	present := map[string]Link{"eth0": {Name: "eth0",
		Addresses: []Address{{Prefix: netip.MustParsePrefix("fd00::77/48")}}}}
	n := routed()
	n.Subnets[0] = network.HostSubnet{ID: "6", IPVersion: 6, CIDR: "fd00::/64", Gateway: "fd00::1", Address: "fd00::9"}
	if _, refused := own.Admit([]network.HostNetwork{n}, present); !strings.Contains(refused["6"], "fd00::77/48 of eth0") {
		t.Errorf("a subnet of the host: %v", refused)
	}
}
