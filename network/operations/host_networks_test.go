package operations

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/store"
)

// tunnelCloud returns a service whose hosts cmp1 and cmp2 have tunnels, and a network of type vxlan with a subnet.
func tunnelCloud(t *testing.T) (*Service, store.Network, store.Subnet) {
	t.Helper()
	s := open(t, databases.SQLite(t), nil)
	s.Segments.TenantTypes, s.Segments.Tunnels = []string{"vxlan"}, map[string][][2]int{"vxlan": {{100, 101}}}
	for name, at := range map[string]string{host: "198.51.100.1", host2: "198.51.100.2"} {
		must(t, Agents{s}.ReportAgent(t.Context(), name, string(bandwidth.LinuxBridge), api.AgentReport{
			Configurations: map[string]any{"tunnel_types": []string{"vxlan"}, "tunneling_ip": at}}))
	}
	n, err := s.CreateNetwork(t.Context(), store.Network{AdminUp: true})
	must(t, err)
	sub, err := s.CreateSubnet(t.Context(), store.Subnet{Network: n.ID, IPVersion: 4, CIDR: "10.0.0.0/29", DHCP: true},
		false)
	must(t, err)
	return s, n, sub
}

// guestPort creates a port of a server on a host.
func guestPort(t *testing.T, s *Service, network, on string) store.Port {
	t.Helper()
	p, err := s.CreatePort(t.Context(), store.Port{Network: network, AdminUp: true, Owner: "compute:nova",
		Device: string(server), Binding: store.Binding{Host: on, VNIC: "normal"}}, nil)
	must(t, err)
	return p
}

func hostNetworks(t *testing.T, s *Service, of string) api.HostNetworks {
	t.Helper()
	all, err := Agents{s}.HostNetworks(t.Context(), of)
	must(t, err)
	return all
}

// TestHostNetworks follows the networks of two hosts: their own ports, the ends of tunnels, and a migration.
func TestHostNetworks(t *testing.T) {
	s, n, sub := tunnelCloud(t)
	if n.MTU != 1450 || n.Segments[0].Type != "vxlan" || n.Segments[0].ID != 100 {
		t.Errorf("network %+v", n)
	}
	if all := hostNetworks(t, s, host); len(all.Networks)+len(all.Ports) != 0 {
		t.Errorf("without ports: %+v", all)
	}
	p := guestPort(t, s, n.ID, host)
	if p.Binding.VIF != "bridge" || p.Binding.Bridge != "brq"+n.ID[:11] {
		t.Fatalf("binding %+v", p.Binding)
	}
	all := hostNetworks(t, s, host)
	if len(all.Networks) != 1 || len(all.Ports) != 1 || all.Ports[0].ID != p.ID ||
		all.Ports[0].FixedIPs[0].Address != "10.0.0.2" || all.Ports[0].Bridge != p.Binding.Bridge {
		t.Fatalf("with a port: %+v", all)
	}
	one := all.Networks[0]
	if one.Subnets[0].Address != "10.0.0.3" || one.Subnets[0].Gateway != "10.0.0.1" || one.MAC == "" ||
		!one.Routed() || len(one.Peers) != 0 || one.Names[0] != (api.HostName{Name: "host-10-0-0-2", Address: "10.0.0.2"}) {
		t.Errorf("network of the host: %+v", one)
	}
	if again := hostNetworks(t, s, host); again.Networks[0].Port != one.Port {
		t.Errorf("a second port: %s, %s", one.Port, again.Networks[0].Port)
	}
	_, err := Bindings{s}.Add(t.Context(), p.ID, store.Binding{Host: host2, VNIC: "normal"})
	must(t, err)
	there := hostNetworks(t, s, host2)
	if len(there.Networks) != 1 || len(there.Ports) != 1 ||
		!slices.Equal(there.Networks[0].Peers, []string{"198.51.100.1"}) {
		t.Errorf("before the migration: %+v", there)
	}
	if here := hostNetworks(t, s, host); !slices.Equal(here.Networks[0].Peers, []string{"198.51.100.2"}) {
		t.Errorf("the other end: %+v", here.Networks[0])
	}
	_, err = Bindings{s}.Activate(t.Context(), p.ID, host2)
	must(t, err)
	must(t, Bindings{s}.Delete(t.Context(), p.ID, host))
	if here := hostNetworks(t, s, host); len(here.Networks)+len(here.Ports) != 0 {
		t.Errorf("after the migration: %+v", here)
	}
	must(t, s.DeletePort(t.Context(), p.ID, NoRevision))
	must(t, s.DeleteSubnet(t.Context(), sub.ID, NoRevision))
	must(t, s.DeleteNetwork(t.Context(), n.ID, NoRevision))
	if left, err := List[store.Port](t.Context(), s, store.Filter{}); err != nil || len(left) != 0 {
		t.Errorf("ports that are left: %+v %v", left, err)
	}
}

// TestSubnetsOfRoutedNetworks refuses subnets with gateways that overlap, and VNIs beyond the ranges.
func TestSubnetsOfRoutedNetworks(t *testing.T) {
	s, _, sub := tunnelCloud(t)
	other, err := s.CreateNetwork(t.Context(), store.Network{})
	must(t, err)
	create := func(cidr string, gateway bool) (store.Subnet, error) {
		return s.CreateSubnet(t.Context(), store.Subnet{Network: other.ID, IPVersion: 4, CIDR: cidr}, !gateway)
	}
	if _, err := create("10.0.0.0/16", true); fault.KindOf(err) != fault.Conflict ||
		!strings.Contains(fault.TextOf(err), "overlaps with 10.0.0.0/29") {
		t.Errorf("an overlapping subnet: %v", err)
	}
	inner, err := create("10.0.0.0/24", false)
	must(t, err)
	if _, err := s.UpdateSubnet(t.Context(), inner.ID, NoRevision, func(sub *store.Subnet) error {
		sub.Gateway = "10.0.0.254"
		sub.Pools = nil
		return nil
	}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a gateway for an overlapping subnet: %v", err)
	}
	if _, err := create("10.1.0.0/24", true); err != nil {
		t.Error(err)
	}
	if _, err := s.CreatePort(t.Context(), store.Port{Network: other.ID, Binding: store.Binding{VNIC: "normal"}},
		[]store.FixedIP{{Address: "10.1.0.1"}}); fault.CodeOf(err) != "IpAddressAlreadyAllocated" {
		t.Errorf("a port with the address of the gateway: %v", err)
	}
	if _, err := s.CreateNetwork(t.Context(), store.Network{}); fault.CodeOf(err) != "NoNetworkAvailable" {
		t.Errorf("a third network of two VNIs: %v", err)
	}
	flat, err := s.CreateNetwork(t.Context(), store.Network{Segments: []store.Segment{{Type: "flat",
		PhysicalNetwork: "lan"}}})
	must(t, err)
	_, err = s.CreateSubnet(t.Context(), store.Subnet{Network: flat.ID, IPVersion: 4, CIDR: sub.CIDR}, false)
	if err != nil {
		t.Errorf("the same range on a network that no host routes: %v", err)
	}
}

// TestIPv6OfHosts gives a host an own address of IPv6 where it is the router: formed as those of guests, or a free one.
func TestIPv6OfHosts(t *testing.T) {
	s, n, _ := tunnelCloud(t)
	create := func(cidr, mode string, gateway bool) string {
		sub, err := s.CreateSubnet(t.Context(), store.Subnet{Network: n.ID, IPVersion: 6, CIDR: cidr, DHCP: true,
			RAMode: mode, AddressMode: mode}, !gateway)
		must(t, err)
		return sub.ID
	}
	formed, given, none := create("fd00:1::/64", "slaac", true), create("fd00:2::/64", "dhcpv6-stateful", true),
		create("fd00:3::/64", "", false)
	guestPort(t, s, n.ID, host)
	one := hostNetworks(t, s, host).Networks[0]
	mac, _ := address.ParseMAC(one.MAC)
	want := map[string]string{given: "fd00:2::3", none: "",
		formed: address.EUI64(netip.MustParsePrefix("fd00:1::/64"), mac).String()}
	for _, sub := range one.Subnets {
		if at, six := want[sub.ID]; six && sub.Address != at {
			t.Errorf("%s: %s, want %q", sub.CIDR, sub.Address, at)
		}
		if mode := map[string]string{formed: "slaac", given: "dhcpv6-stateful"}[sub.ID]; sub.IPv6Mode != mode {
			t.Errorf("%s: mode %q, want %q", sub.CIDR, sub.IPv6Mode, mode)
		}
	}
}

// TestUnadvertisedIPv6: in networks that the hosts route, a subnet whose guests form their addresses is refused if no
// host advertises it, also after a change.
func TestUnadvertisedIPv6(t *testing.T) {
	s, n, _ := tunnelCloud(t)
	create := func(network, mode string, gateway bool) (store.Subnet, error) {
		return s.CreateSubnet(t.Context(), store.Subnet{Network: network, IPVersion: 6, CIDR: "fd00:1::/64", DHCP: true,
			RAMode: mode, AddressMode: mode}, !gateway)
	}
	for _, mode := range []string{api.SLAAC, api.DHCPv6Stateless} {
		if _, err := create(n.ID, mode, false); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), "no host advertises fd00:1::/64 with the mode "+mode) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for _, mode := range []string{"", api.DHCPv6Stateful} { // guests get their addresses by the config drive
		sub, err := create(n.ID, mode, false)
		must(t, err)
		must(t, s.DeleteSubnet(t.Context(), sub.ID, -1))
	}
	sub, err := create(n.ID, api.SLAAC, true)
	must(t, err)
	_, err = s.UpdateSubnet(t.Context(), sub.ID, -1, func(sub *store.Subnet) error {
		sub.Gateway = ""
		return nil
	})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), "set gateway_ip") {
		t.Errorf("the gateway is removed: %v", err)
	}
	flat, err := s.CreateNetwork(t.Context(), store.Network{Segments: []store.Segment{{Type: "flat",
		PhysicalNetwork: "lan"}}})
	must(t, err)
	if _, err := create(flat.ID, api.SLAAC, false); err != nil {
		t.Errorf("a network that another router advertises: %v", err)
	}
}

// TestMTUOfIPv6: a network with subnets of IPv6 has an MTU of at least 1280, also after a change.
func TestMTUOfIPv6(t *testing.T) {
	s, n, _ := tunnelCloud(t)
	refused := func(what string, err error) {
		if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err), "IPv6 needs at least 1280") {
			t.Errorf("%s: %v", what, err)
		}
	}
	create := func(network string, version int, cidr string) error {
		sub := store.Subnet{Network: network, IPVersion: version, CIDR: cidr, DHCP: true}
		_, err := s.CreateSubnet(t.Context(), sub, false)
		return err
	}
	setMTU := func(mtu int) error {
		_, err := s.UpdateNetwork(t.Context(), n.ID, -1, func(n *store.Network) error { n.MTU = mtu; return nil })
		return err
	}
	must(t, setMTU(1279)) // tunnelCloud has subnets of IPv4 only
	refused("a subnet in a network with a small MTU", create(n.ID, 6, "fd00:1::/64"))
	must(t, create(n.ID, 4, "10.99.0.0/24"))
	must(t, setMTU(1280))
	must(t, create(n.ID, 6, "fd00:1::/64"))
	must(t, setMTU(1400))
	refused("a smaller MTU", setMTU(1279))
	must(t, setMTU(1280))
}

// TestDHCPv6OfProviderNetworks: a host that does not route a network has an address of IPv6 there only where it can
// serve a mode with DHCPv6. The mode of advertisements does not count.
func TestDHCPv6OfProviderNetworks(t *testing.T) {
	s := open(t, databases.SQLite(t), nil)
	must(t, Agents{s}.ReportAgent(t.Context(), host, string(bandwidth.LinuxBridge), api.AgentReport{
		Devices: []api.AgentDevice{{Name: "br-lan", PhysicalNetworks: []string{"lan"}}}}))
	n, err := s.CreateNetwork(t.Context(), store.Network{AdminUp: true, Segments: []store.Segment{{Type: "flat",
		PhysicalNetwork: "lan"}}})
	must(t, err)
	want := map[string]string{}
	for _, c := range []struct {
		cidr, ra, mode string
		dhcp           bool
		address        string
	}{{"fd00:1::/64", "", api.DHCPv6Stateful, true, "fd00:1::3"}, {"fd00:2::/64", api.DHCPv6Stateful, "", true, ""},
		{"fd00:3::/64", "", "", true, ""}, {"fd00:4::/64", api.SLAAC, api.SLAAC, true, ""},
		{"fd00:5::/56", "", api.DHCPv6Stateful, true, ""}, {"fd00:6::/112", api.DHCPv6Stateful, api.DHCPv6Stateful, true,
			"fd00:6::2"}, {"fd00:7::/64", "", "", false, ""}} {
		sub, err := s.CreateSubnet(t.Context(), store.Subnet{Network: n.ID, IPVersion: 6, CIDR: c.cidr, DHCP: c.dhcp,
			RAMode: c.ra, AddressMode: c.mode}, false)
		must(t, err)
		want[sub.ID] = c.address + " " + c.mode
	}
	guestPort(t, s, n.ID, host)
	for _, sub := range hostNetworks(t, s, host).Networks[0].Subnets {
		if got := sub.Address + " " + sub.IPv6Mode; got != want[sub.ID] {
			t.Errorf("%s: %q, want %q", sub.CIDR, got, want[sub.ID])
		}
	}
}

// TestFullSubnetBesideAnother gives a host an own address in each subnet that has a free one.
func TestFullSubnetBesideAnother(t *testing.T) {
	s, n, full := tunnelCloud(t)
	other, err := s.CreateSubnet(t.Context(), store.Subnet{Network: n.ID, IPVersion: 4, CIDR: "10.0.1.0/24", DHCP: true},
		false)
	must(t, err)
	addresses := func() map[string]string {
		out := map[string]string{}
		for _, sub := range hostNetworks(t, s, host).Networks[0].Subnets {
			out[sub.ID] = sub.Address
		}
		return out
	}
	var taken []store.Port
	for range 5 {
		p, err := s.CreatePort(t.Context(), store.Port{Network: n.ID, AdminUp: true, Owner: "compute:nova",
			Device: string(server), Binding: store.Binding{Host: host, VNIC: "normal"}}, []store.FixedIP{{Subnet: full.ID}})
		must(t, err)
		taken = append(taken, p)
	}
	if got := addresses(); got[full.ID] != "" || got[other.ID] != "10.0.1.2" {
		t.Errorf("a full subnet beside another: %v", got)
	}
	before := revisionOf(t, s)
	addresses()
	if after := revisionOf(t, s); after != before {
		t.Errorf("a poll wrote: revision %d, then %d", before, after)
	}
	must(t, s.DeletePort(t.Context(), taken[0].ID, NoRevision))
	if got := addresses(); got[full.ID] == "" || got[other.ID] != "10.0.1.2" {
		t.Errorf("with a free address: %v", got)
	}
}

// TestFullSubnetOfAHost leaves a host without an own address when no address is free; its ports keep theirs.
func TestFullSubnetOfAHost(t *testing.T) {
	s, n, _ := tunnelCloud(t)
	for range 5 {
		guestPort(t, s, n.ID, host)
	}
	all := hostNetworks(t, s, host)
	if len(all.Ports) != 5 || all.Networks[0].Port != "" || all.Networks[0].Subnets[0].Address != "" {
		t.Errorf("%+v", all)
	}
	before := revisionOf(t, s)
	for range 3 {
		if again := hostNetworks(t, s, host); len(again.Ports) != 5 {
			t.Errorf("again: %+v", again)
		}
	}
	if after := revisionOf(t, s); after != before {
		t.Errorf("polls of a host without a free address wrote: revision %d, then %d", before, after)
	}
	must(t, s.DeletePort(t.Context(), all.Ports[0].ID, NoRevision))
	if all = hostNetworks(t, s, host); all.Networks[0].Subnets[0].Address == "" {
		t.Errorf("with a free address: %+v", all.Networks[0])
	}
}

// revisionOf returns the number of transactions that wrote.
func revisionOf(t *testing.T, s *Service) (revision int64) {
	t.Helper()
	must(t, s.Store.Read(t.Context(), func(tx *store.Tx) error {
		revision = tx.Revision
		return nil
	}))
	return revision
}

// TestGatewayOutsideOfASubnet refuses it where a host has the gateway or no other machine can have it, and accepts it
// on a network of other machines.
func TestGatewayOutsideOfASubnet(t *testing.T) {
	s, _, tunnelled := tunnelCloud(t)
	network := func(segment store.Segment) string {
		n, err := s.CreateNetwork(t.Context(), store.Network{Segments: []store.Segment{segment}})
		must(t, err)
		return n.ID
	}
	vxlan, local, flat := network(store.Segment{Type: "vxlan"}), network(store.Segment{Type: "local"}),
		network(store.Segment{Type: "flat", PhysicalNetwork: "lan"})
	for _, c := range []struct {
		network, cidr, gateway string
		refused                bool
	}{
		{vxlan, "10.2.0.0/24", "198.51.100.2", true}, {vxlan, "10.2.0.0/24", "10.2.1.1", true},
		{vxlan, "10.2.0.0/24", "10.2.0.9", false}, {local, "10.2.0.0/24", "198.51.100.2", true},
		{vxlan, "2001:db8::/64", "2001:db8:1::1", true}, {vxlan, "2001:db8::/64", "fe80::1", false},
		{flat, "10.2.0.0/24", "198.51.100.2", false},
	} {
		version := 4
		if strings.Contains(c.cidr, ":") {
			version = 6
		}
		_, err := s.CreateSubnet(t.Context(), store.Subnet{Network: c.network, IPVersion: version, CIDR: c.cidr,
			Gateway: c.gateway}, true)
		if (fault.KindOf(err) == fault.Invalid) != c.refused || !c.refused && err != nil ||
			c.refused && !strings.Contains(fault.TextOf(err), "Gateway is not valid on subnet") {
			t.Errorf("gateway %s of %s: %v", c.gateway, c.cidr, err)
		}
	}
	_, err := s.UpdateSubnet(t.Context(), tunnelled.ID, NoRevision, func(sub *store.Subnet) error {
		sub.Gateway = "198.51.100.2"
		return nil
	})
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("an update to a gateway outside: %v", err)
	}
	if _, err = s.AddSegment(t.Context(), flat, store.Segment{Type: "local"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a local segment for a subnet with a gateway outside: %v", err)
	}
}
