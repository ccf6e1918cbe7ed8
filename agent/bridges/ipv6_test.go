package bridges_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/machines"
	"github.com/openberth/berth/internal/testenv"
)

const (
	netC = "0c000000-1111-4000-8000-000000000003"
	netD = "0d000000-1111-4000-8000-000000000004"
)

// withSix returns a network that also has a subnet of IPv6.
func withSix(n network.HostNetwork, cidr, gateway, own, mode string) network.HostNetwork {
	n.Subnets = append(n.Subnets, network.HostSubnet{ID: "six-" + n.ID, IPVersion: 6, CIDR: cidr, Gateway: gateway,
		DHCP: true, Address: own, IPv6Mode: mode})
	return n
}

// six returns a port that also has an address of IPv6. Its security group permits everything.
func six(p network.HostPort, address string) network.HostPort {
	p.FixedIPs = append(p.FixedIPs, network.FixedIP{Subnet: "six-" + p.Network, Address: address})
	return secured(p, "open")
}

// openGroup is a security group that permits everything.
var openGroup = network.HostSecurityGroup{ID: "open", Rules: []network.HostSecurityGroupRule{
	{ID: "1", Direction: "egress", EtherType: "IPv4"}, {ID: "2", Direction: "egress", EtherType: "IPv6"},
	{ID: "3", Direction: "ingress", EtherType: "IPv4"}, {ID: "4", Direction: "ingress", EtherType: "IPv6"}}}

// learns lets a guest accept router advertisements, and waits for a text in the output of ip.
func (h *host) learns(guest, text string) string {
	h.t.Helper()
	h.run(in(guest, "sysctl -qw net.ipv6.conf.eth0.accept_ra=1 net.ipv6.conf.eth0.accept_dad=0"+
		" && ip link set eth0 down && ip link set eth0 up"))
	out := ""
	for range 60 {
		if out = h.run(in(guest, "ip -6 addr show dev eth0; ip -6 route")); strings.Contains(out, text) {
			return out
		}
		time.Sleep(250 * time.Millisecond)
	}
	h.t.Errorf("%s does not learn %s:\n%s", guest, text, out)
	return out
}

// TestIPv6OfRoutedNetworks: guests form their addresses or get them, find their router, reach each other on all hosts,
// the host, and what is outside if the host has a route; they reach no other network, and nothing outside reaches them.
func TestIPv6OfRoutedNetworks(t *testing.T) {
	requirePrograms(t)
	testenv.Need(t, "dhclient", "DHCPv6")
	n := machines.Start(t)
	outside := n.Machine("outside", "192.0.2.100", os.Args[0])
	h, h2 := newHost(t, n, "host1", "192.0.2.11"), newHost(t, n, "host2", "192.0.2.12")
	a := withSix(routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101, "192.0.2.12"),
		"fd00:1::/64", "fd00:1::1", "fd00:1::f816:3eff:feaa:1", "slaac")
	a2 := withSix(routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.251", "fa:16:3e:aa:00:11", 101, "192.0.2.11"),
		"fd00:1::/64", "fd00:1::1", "fd00:1::f816:3eff:feaa:11", "slaac")
	b := withSix(routed(netB, "10.0.2.0/24", "10.0.2.1", "10.0.2.250", "fa:16:3e:aa:00:02", 102), "fd00:2::/64",
		"fe80::1", "fd00:2::250", "dhcpv6-stateful")
	c := withSix(routed(netC, "10.0.3.0/24", "10.0.3.1", "10.0.3.250", "fa:16:3e:aa:00:03", 103), "fd00:3::/64",
		"fd00:3::1", "fd00:3::f816:3eff:feaa:3", "dhcpv6-stateless")
	d := withSix(routed(netD, "10.0.4.0/24", "", "", "fa:16:3e:aa:00:04", 104), "fd00:4::/64", "fd00:4::1",
		"fd00:4::f816:3eff:feaa:4", "slaac")
	d.Subnets = d.Subnets[1:]
	alpha := six(port(a, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10"), "fd00:1::f816:3eff:fe00:10a")
	beta := six(port(a, "a2a2a2a2-0001-4000-8000-2", "beta", "10.0.1.11"), "fd00:1::f816:3eff:fe00:10b")
	delta := six(port(a2, "a4a4a4a4-0001-4000-8000-4", "delta", "10.0.1.13"), "fd00:1::f816:3eff:fe00:10d")
	gamma := six(port(b, "b1b1b1b1-0001-4000-8000-3", "gamma", "10.0.2.10"), "fd00:2::10")
	sigma := six(port(c, "c1c1c1c1-0001-4000-8000-3", "sigma", "10.0.3.10"), "fd00:3::f816:3eff:fe00:30a")
	sigma.PortSecurity, sigma.Groups = false, nil
	omega := six(port(d, "d1d1d1d1-0001-4000-8000-3", "omega", "10.0.4.10"), "fd00:4::f816:3eff:fe00:40a")
	omega.FixedIPs = omega.FixedIPs[1:]
	a.Names = []network.HostName{{Name: "beta", Address: "fd00:1::f816:3eff:fe00:10b"}}
	groups := []network.HostSecurityGroup{openGroup}
	h2.run("ip -6 route add default via fe80::99 dev eth0 proto ra")
	for one, all := range map[*host]network.HostNetworks{
		h: {Networks: []network.HostNetwork{a, b, c, d}, Ports: []network.HostPort{alpha, beta, gamma, sigma, omega},
			Groups: groups},
		h2: {Networks: []network.HostNetwork{a2}, Ports: []network.HostPort{delta}, Groups: groups}} {
		if c := one.want(all); c != "" {
			t.Fatalf("conditions of %s: %s", one.Name, c)
		}
		for _, p := range all.Ports {
			one.guest(p.Name, p)
		}
	}
	if seen := h2.run("sysctl -n net.ipv6.conf.eth0.accept_ra"); seen != "2\n" {
		t.Errorf("the host, which forwards packets now, loses its own router: accept_ra %s", seen)
	}
	if seen := h.run("sysctl -n net.ipv6.conf.eth0.accept_ra"); seen != "1\n" {
		t.Errorf("the host has no router on the interface, and accept_ra is %s", seen)
	}
	router := "default via fe80::" // of the MAC address of the gateway
	for guest, address := range map[string]string{"alpha": "fd00:1::f816:3eff:fe00:10a/64",
		"beta": "fd00:1::f816:3eff:fe00:10b/64", "sigma": "fd00:3::f816:3eff:fe00:30a/64", "gamma": router,
		"omega": "fd00:4::f816:3eff:fe00:40a/64"} {
		if seen := h.learns(guest, address); strings.Count(seen, router) != 1 {
			t.Errorf("routers of %s: %s", guest, seen)
		}
	}
	if seen := h2.learns("delta", "fd00:1::f816:3eff:fe00:10d/64"); strings.Count(seen, router) != 1 {
		t.Errorf("routers of delta: %s", seen)
	}
	if seen := h.run(in("gamma", "ip -6 addr show dev eth0")); strings.Contains(seen, "fd00:2:") {
		t.Errorf("a guest forms an address in a subnet of dhcpv6-stateful: %s", seen)
	}
	lease := h.run(in("gamma", "dhclient -6 -1 -v -sf /bin/true -lf /tmp/gamma.leases -pf /tmp/gamma.pid eth0 2>&1; "+
		"cat /tmp/gamma.leases; dhclient -6 -x -pf /tmp/gamma.pid -lf /tmp/gamma.leases -sf /bin/true eth0 2>&1"))
	if !strings.Contains(lease, "iaaddr fd00:2::10 ") || !strings.Contains(lease, "dhcp6.name-servers fe80::1") {
		t.Errorf("lease of gamma: %s", lease)
	}
	h.run(in("gamma", "ip -6 addr add fd00:2::10/128 dev eth0 nodad"))
	outside.Command("ip -6 addr add fd99::100/64 dev eth0 nodad").Run()
	h.run("ip -6 addr add fd99::11/64 dev eth0 nodad")
	if !h.fails(in("alpha", "busybox ping6 -c1 -W1 fd98::1")) {
		t.Error("what the host has no route to is reached")
	}
	h.run("ip -6 route add default via fd99::100")
	outside.Command("ip -6 addr add fd98::1/64 dev eth0 nodad").Run()
	ping := "busybox ping6 -c1 -W3 "
	for what, script := range map[string]string{
		"a neighbour":             in("alpha", ping+"fd00:1::f816:3eff:fe00:10b"),
		"a guest of another host": in("alpha", ping+"fd00:1::f816:3eff:fe00:10d"),
		"the gateway":             in("alpha", ping+"fd00:1::1"),
		"a link-local gateway":    in("gamma", ping+"fe80::1%eth0"),
		"the outside":             in("alpha", ping+"fd99::100"),
		"beyond the outside":      in("alpha", ping+"fd98::1"),
		"the outside of gamma":    in("gamma", ping+"fd98::1"),
		"of the host":             ping + "fd00:1::f816:3eff:fe00:10a",
		"of the host to another":  ping + "fd00:1::f816:3eff:fe00:10d",
		"of the host to gamma":    ping + "fd00:2::10",
		"a name":                  in("alpha", "busybox nslookup -type=AAAA beta.cloud.test fd00:1::1 | grep 10b"),
	} {
		if out, err := h.Command(script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", what, err, out)
		}
	}
	h.checkMetadata("alpha", "beta", "gamma", "sigma", "omega")
	h2.checkMetadata("delta")
	outside.Command("ip -6 route add fd00:1::/64 via fd99::11").Run()
	if outside.Command("busybox ping6 -c1 -W1 fd00:1::f816:3eff:fe00:10a").Run() == nil {
		t.Error("a guest is reached from outside")
	}
	h.run("busybox nc -lk -p 8080 -e echo >/dev/null 2>&1 & sleep 0.2")
	for what, script := range map[string]string{
		"another network":               in("alpha", "busybox ping6 -c1 -W1 fd00:2::10"),
		"the other network's gateway":   in("alpha", "busybox ping6 -c1 -W1 fd00:3::1"),
		"the host by its other address": in("alpha", "busybox ping6 -c1 -W1 fd99::11"),
		"a service of the host":         in("alpha", "busybox nc -w1 fd00:1::1 8080 </dev/null | grep ."),
		"a service beside metadata":     in("alpha", "busybox nc -w1 fe80::a9fe:a9fe%eth0 8080 </dev/null | grep ."),
		"metadata at the gateway":       in("alpha", "curl -sS -m2 http://[fd00:1::1]:9697/"),
		"metadata of the host":          "curl -sS -g -m2 http://[fe80::a9fe:a9fe%25brq" + netA[:11] + "]/",
		"metadata port of the host":     "curl -sS -g -m2 http://[fd99::11]:9697/",
	} {
		if !h.fails(script) {
			t.Errorf("%s is reached", what)
		}
	}
	h.checkRoutersOfGuests("alpha", "sigma", "beta")
	if c := h.want(network.HostNetworks{Networks: []network.HostNetwork{b, c, d},
		Ports: []network.HostPort{gamma, sigma, omega}, Groups: groups}); !strings.Contains(c, "stays as long as") {
		t.Errorf("a network with guests: %q", c)
	}
}

// TestDHCPv6OfProviderNetwork: a host answers the DHCPv6 of its own guests where another router advertises, and of no
// others. It learns nothing from that router, and its bridge has no IPv6.
func TestDHCPv6OfProviderNetwork(t *testing.T) {
	requirePrograms(t)
	testenv.Need(t, "dhclient", "DHCPv6")
	h := newHost(t, machines.Start(t), "host1", "192.0.2.11")
	h.run("ip netns add far && ip link add phys0 type veth peer name eth0 netns far && ip -n far link set eth0 up && " +
		"ip link add phys1 type veth peer name phys1far")
	p := withSix(routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 0), "fd00:5::/64", "fd00:5::1",
		"fd00:5::250", network.DHCPv6Stateful)
	s := withSix(routed(netB, "10.0.2.0/24", "10.0.2.1", "10.0.2.250", "fa:16:3e:aa:00:02", 0), "fd00:6::/64", "fd00:6::1",
		"fd00:6::f816:3eff:feaa:2", network.DHCPv6Stateless)
	s.Subnets[1].DNS = []string{"2001:db8::53"}
	p.NetworkType, p.PhysicalNetwork, s.NetworkType, s.PhysicalNetwork = "flat", "lan", "flat", "wan"
	alpha := six(port(p, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10"), "fd00:5::10")
	sigma := six(port(s, "b1b1b1b1-0001-4000-8000-3", "sigma", "10.0.2.10"), "fd00:6::f816:3eff:fe00:20a")
	all := network.HostNetworks{Networks: []network.HostNetwork{p, s}, Ports: []network.HostPort{alpha, sigma},
		Groups: []network.HostSecurityGroup{openGroup}}
	if c := h.want(all); c != "" {
		t.Fatalf("conditions: %s", c)
	}
	h.guest("alpha", alpha)
	h.guest("sigma", sigma)
	info := filepath.Join(h.dir, "info.sh")
	must(t, os.WriteFile(info, []byte("#!/bin/sh\necho dhcp6.name-servers $new_dhcp6_name_servers\n"), 0o755))
	lease := func(guest, seconds, more string) string {
		files := filepath.Join(h.dir, guest)
		return h.run(in(guest, "sysctl -qw net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 down && ip link set eth0 up;"+
			" timeout "+seconds+" dhclient -6 -1 -v "+more+" -lf "+files+".leases -pf "+files+".pid eth0 2>&1; "+
			"cat "+files+".leases; kill $(cat "+files+".pid) 2>/dev/null; true"))
	}
	got := lease("alpha", "20", "-sf /bin/true")
	if !strings.Contains(got, "iaaddr fd00:5::10 ") || strings.Contains(got, "dhcp6.name-servers") {
		t.Errorf("lease of alpha: %s", got)
	}
	if got = lease("sigma", "20", "-S -sf "+info); !strings.Contains(got, "dhcp6.name-servers 2001:db8::53") {
		t.Errorf("options of sigma: %s", got)
	}
	if got = lease("far", "5", "-sf /bin/true"); strings.Contains(got, "iaaddr") {
		t.Errorf("a guest of another host gets a lease: %s", got)
	}
	if got = lease("far", "5", "-S -sf "+info); strings.Contains(got, "Reply") {
		t.Errorf("a guest of another host gets options: %s", got)
	}
	h.run(in("far", "ip addr add fd66::1/64 dev eth0 nodad && dnsmasq --conf-file=/dev/null --port=0 --bind-dynamic "+
		"--interface=eth0 --enable-ra --ra-param=eth0,4,600 --dhcp-range=fd66::,ra-only,64,600 --user=root "+
		"--pid-file=/run/far.pid"))
	h.learns("alpha", "fd66:") // it is advertised
	if got = h.run("ip -6 route; ip -6 addr"); strings.Contains(got, "fd66:") || strings.Contains(got, "default") {
		t.Errorf("the host learns from a router: %s", got)
	}
	h.run("kill $(cat /run/far.pid)")
	if got = h.run("ip -6 addr show dev brq" + netA[:11]); got != "" {
		t.Errorf("the bridge has IPv6: %s", got)
	}
	h.run(in("alpha", "ip -6 addr add fd00:5::10/64 dev eth0 nodad"))
	for _, at := range []string{"fd00:5::250", "fe80::a9fe:a9fe%eth0"} {
		if !h.fails(in("alpha", "busybox nc -w1 "+at+" 9697 </dev/null")) {
			t.Errorf("metadata are reached at %s", at)
		}
	}
}

// checkMetadata lets guests read their own metadata by IPv6: each gets its own.
func (h *host) checkMetadata(guests ...string) {
	h.t.Helper()
	for _, guest := range guests {
		out := h.run(in(guest, "curl -sS -g -m5 http://[fe80::a9fe:a9fe%25eth0]/openstack/latest/user_data"))
		if out != "data of "+guest {
			h.t.Errorf("user data of %s by IPv6: %q", guest, out)
		}
	}
}

// checkRoutersOfGuests lets guests advertise themselves as routers: one with port security, which its neighbour does
// not see, and one without, from which the host learns nothing.
func (h *host) checkRoutersOfGuests(secured, open, neighbour string) {
	h.t.Helper()
	state := "ip -6 route; ip -6 addr"
	before, there := h.run(state), h.run(in(neighbour, state))
	for _, guest := range []string{secured, open} {
		h.run(in(guest, "ip -6 addr add fd66::1/64 dev eth0 nodad && dnsmasq --conf-file=/dev/null --port=0 "+
			"--bind-dynamic --interface=eth0 --enable-ra --ra-param=eth0,4,600 --dhcp-range=fd66::,ra-only,64,600 "+
			"--user=root --pid-file=/run/router-"+guest+".pid"))
	}
	time.Sleep(6 * time.Second)
	if after := h.run(state); strings.Contains(after, "fd66:") || !sameRoutes(before, after) {
		h.t.Errorf("the host learns from a guest:\n%s\nbefore:\n%s", after, before)
	}
	if after := h.run(in(neighbour, state)); strings.Contains(after, "fd66:") {
		h.t.Errorf("a guest learns from its neighbour:\n%s\nbefore:\n%s", after, there)
	}
	h.run("kill $(cat /run/router-*.pid)")
}

// sameRoutes reports whether two outputs have the same default routes.
func sameRoutes(a, b string) bool { return strings.Count(a, "default") == strings.Count(b, "default") }
