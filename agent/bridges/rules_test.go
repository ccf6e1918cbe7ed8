package bridges_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/machines"
	"github.com/openberth/berth/internal/testenv"
)

// TestRulesAreAccepted gives the rules of all kinds of networks, alone and together, to nft.
func TestRulesAreAccepted(t *testing.T) {
	testenv.Need(t, "root", "nft")
	a := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101)
	full, closed, operators := a, a, a
	full.Port, full.MAC, full.Subnets = "", "", []network.HostSubnet{{IPVersion: 4, CIDR: "10.0.1.0/30",
		Gateway: "10.0.1.1"}}
	closed.Subnets = []network.HostSubnet{{IPVersion: 4, CIDR: "10.0.2.0/24", Address: "10.0.2.9", DHCP: true},
		{IPVersion: 4, CIDR: "10.0.3.0/24", Gateway: "10.0.3.1", Address: "10.0.3.9"},
		{IPVersion: 6, CIDR: "2001:db8::/64", Gateway: "2001:db8::1"}}
	operators.NetworkType, operators.PhysicalNetwork, operators.Bridge = "flat", "lan", "br-lan"
	silent := operators
	silent.Port, silent.MAC, silent.Subnets = "", "", []network.HostSubnet{{IPVersion: 4, CIDR: "192.0.2.0/24"}}
	vlan, local, bare := operators, a, a
	vlan.NetworkType, vlan.Bridge, vlan.SegmentationID = "vlan", "brqvlan", 100
	local.NetworkType, local.Subnets = "local", nil
	bare.Port, bare.Subnets = "", nil
	h := bridgeplan.Host{TunnelIP: "192.0.2.1", TunnelPort: 4789, Bridges: map[string]string{"lan": "br-lan"}}
	for name, networks := range map[string][]network.HostNetwork{
		"none": nil, "routed": {a}, "without an own address": {full}, "several subnets": {closed},
		"the operator's bridge": {operators}, "the operator's bridge without DHCP": {silent}, "a VLAN": {vlan},
		"local without subnets": {local}, "routed without subnets": {bare}, "all": {a, operators, silent, vlan, local}} {
		text := h.Rules(networks)
		cmd := exec.Command("nft", "-c", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s\n%s", name, err, out, text)
		}
	}
}

// TestFullSubnetWithSmallMTU: a network without an address for its host, and with an MTU for which the kernel has no
// IPv6, is connected: its guests get answers from outside, and the host reaches them.
func TestFullSubnetWithSmallMTU(t *testing.T) {
	requirePrograms(t)
	n := machines.Start(t)
	n.Machine("outside", "192.0.2.100", os.Args[0])
	h := newHost(t, n, "host1", "192.0.2.11")
	a := routed(netA, "10.0.1.0/29", "10.0.1.1", "", "", 101)
	a.Port, a.MTU = "", 1200
	p, q := secured(port(a, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.2"), "all"),
		port(a, "a2a2a2a2-0001-4000-8000-2", "beta", "10.0.1.3")
	groups := []network.HostSecurityGroup{{ID: "all", Rules: []network.HostSecurityGroupRule{
		{ID: "out", Direction: "egress", EtherType: "IPv4"}, {ID: "in", Direction: "ingress", EtherType: "IPv4"}}}}
	all := network.HostNetworks{Networks: []network.HostNetwork{a}, Ports: []network.HostPort{p, q}, Groups: groups}
	c := h.want(all)
	if !strings.Contains(c, "has no own address in the subnet 10.0.1.0/29") || strings.Contains(c, "\n") {
		t.Errorf("conditions: %s", c)
	}
	must(t, os.WriteFile(h.Path("root/lease.sh"), []byte(leaseScript), 0o755))
	for _, one := range all.Ports {
		h.guest(one.Name, one)
		h.run(in(one.Name, udhcpc))
		h.run(in(one.Name, "busybox ping -c1 -W2 192.0.2.100"))
		h.run("busybox ping -c1 -W2 " + one.FixedIPs[0].Address)
	}
}
