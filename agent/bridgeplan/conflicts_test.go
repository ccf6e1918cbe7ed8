package bridgeplan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
)

// lan is an interface of the operator in the network 192.0.2.0/24.
func lan() map[string]Link {
	return map[string]Link{"eth0": {Name: "eth0", Up: true,
		Addresses: []Address{{Prefix: netip.MustParsePrefix("192.0.2.10/24")}},
		Routes:    []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
}

// subnet returns a network with one subnet.
func subnet(n network.HostNetwork, cidr, gateway, own string) network.HostNetwork {
	n.Subnets = []network.HostSubnet{{ID: "s", IPVersion: 4, CIDR: cidr, Gateway: gateway, DHCP: true, Address: own}}
	return n
}

// userChosen returns a network whose subnets a user has chosen.
func userChosen(n network.HostNetwork) network.HostNetwork {
	n.Subnets[0].UserChosen = true
	return n
}

// TestConflicts refuses a subnet that the host reaches otherwise, unless its links have it already, and keeps the links
// of a network that is refused.
func TestConflicts(t *testing.T) {
	for name, c := range map[string]struct {
		link Link
		want string
	}{
		"an address":    {Link{Addresses: []Address{{Prefix: netip.MustParsePrefix("10.0.0.2/16")}}}, "10.0.0.2/16 of eth0"},
		"a route":       {Link{Routes: []netip.Prefix{netip.MustParsePrefix("10.0.0.128/25")}}, "the route to 10.0.0.128/25"},
		"other ones":    {Link{Addresses: []Address{{Prefix: netip.MustParsePrefix("10.1.0.1/16")}}}, ""},
		"Berth's links": {Link{Owner: "x", Routes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}, ""},
	} {
		c.link.Name = "eth0"
		present := map[string]Link{"eth0": c.link}
		left, refused := own.Admit([]network.HostNetwork{routed()}, present)
		got := refused[id]
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || (len(left) == 0) != (got != "") {
			t.Errorf("%s: %q", name, got)
		}
		if !NeedsRoutes([]network.HostNetwork{routed()}, present) {
			t.Errorf("%s: the routes of the host are not read", name)
		}
		settle(t, present, routed())
		if left, got := own.Admit([]network.HostNetwork{routed()}, present); len(got) != 0 || len(left[0].Subnets) != 1 {
			t.Errorf("%s: a network that exists: %v", name, got)
		}
		if NeedsRoutes([]network.HostNetwork{routed()}, present) {
			t.Errorf("%s: the routes of the host are read for a network that exists", name)
		}
	}
	inTunnel := Host{TunnelIP: "10.0.0.77"}
	if _, got := inTunnel.Admit([]network.HostNetwork{routed()}, nil); got[id] == "" {
		t.Errorf("the tunnel's own address: %v", got)
	}
	present := map[string]Link{}
	settle(t, present, routed())
	if list, _ := Operations(nil, present, map[string]string{id: "refused"}); len(list) != 0 {
		t.Errorf("links of a refused network: %v", list)
	}
}

// TestChosenAddresses: a user who chooses subnets, gateways and pools gives a host no address that is another's.
func TestChosenAddresses(t *testing.T) {
	local, other := routed(), routed()
	local.NetworkType = "local"
	other.ID, other.Bridge = "0b000000-1111-4000-8000-000000000002", "brq0b000000-11"
	for name, c := range map[string]struct {
		networks []network.HostNetwork
		want     string
	}{
		"a gateway outside": {[]network.HostNetwork{subnet(routed(), "10.77.0.0/24", "192.0.2.10", "10.77.0.9")},
			"does not contain its gateway 192.0.2.10"},
		"another's gateway": {[]network.HostNetwork{subnet(routed(), "10.77.0.0/24", "192.0.2.99", "10.77.0.9")},
			"does not contain its gateway 192.0.2.99"},
		"no gateway": {[]network.HostNetwork{subnet(routed(), "192.0.2.0/24", "", "192.0.2.20")},
			"overlaps with the address 192.0.2.10/24 of eth0"},
		"no gateway, the host's address": {[]network.HostNetwork{subnet(routed(), "192.0.2.0/24", "", "192.0.2.10")},
			"gives this host the address 192.0.2.10"},
		"a local network": {[]network.HostNetwork{subnet(local, "192.0.2.0/24", "", "192.0.2.20")}, "overlaps"},
		"a provider network with the host's address": {[]network.HostNetwork{subnet(provider("flat"), "192.0.2.0/24", "",
			"192.0.2.10")}, "gives this host the address 192.0.2.10"},
		"a provider network": {[]network.HostNetwork{subnet(provider("flat"), "192.0.2.0/24", "192.0.2.1",
			"192.0.2.20")}, ""},
		"a user's subnet of a provider network": {[]network.HostNetwork{userChosen(subnet(provider("vlan"), "192.0.2.0/24",
			"192.0.2.1", "192.0.2.20"))}, "overlaps with the address 192.0.2.10/24 of eth0"},
		"another subnet of a user": {[]network.HostNetwork{userChosen(subnet(provider("vlan"), "10.5.0.0/24", "10.5.0.1",
			"10.5.0.20"))}, ""},
		"the address of another network's guest": {[]network.HostNetwork{subnet(routed(), "10.0.0.0/24", "", "10.0.0.5"),
			other}, "which is part of a network that it routes"},
	} {
		left, refused := own.Admit(c.networks, lan())
		if got := refused[id]; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
		if links, _ := own.Links(left); c.want != "" {
			for _, l := range links {
				if l.Owner == id {
					t.Errorf("%s: made: %+v", name, l)
				}
			}
		}
	}
	links, _ := own.Links([]network.HostNetwork{subnet(routed(), "10.77.0.0/24", "192.0.2.10", "192.0.2.11")})
	for _, l := range links {
		if len(l.Addresses) != 0 {
			t.Errorf("an address that is not of its subnet: %+v", l)
		}
	}
}

// TestLaterSubnet examines a subnet that a network gets later, or whose gateway changes, and keeps its others.
func TestLaterSubnet(t *testing.T) {
	present := lan()
	settle(t, present, routed())
	n := routed()
	n.Subnets = append(n.Subnets, network.HostSubnet{ID: "late", IPVersion: 4, CIDR: "192.0.2.0/24", Gateway: "192.0.2.1",
		Address: "192.0.2.20"})
	if !NeedsRoutes([]network.HostNetwork{n}, present) {
		t.Error("the routes of the host are not read for a new subnet")
	}
	left, refused := own.Admit([]network.HostNetwork{n}, present)
	if len(left) != 1 || len(left[0].Subnets) != 1 || left[0].Subnets[0].ID != "s" || refused[id] != "" ||
		!strings.Contains(refused["late"], "overlaps with the address 192.0.2.10/24") {
		t.Errorf("left %+v, refused %v", left, refused)
	}
	n = routed()
	n.Subnets[0].Gateway = "192.0.2.10"
	if left, refused = own.Admit([]network.HostNetwork{n}, present); len(left) != 1 || len(left[0].Subnets) != 0 ||
		refused["s"] == "" {
		t.Errorf("a gateway that is moved to the host's address: %+v %v", left, refused)
	}
	wide := routed()
	wide.Subnets[0].CIDR = "0.0.0.0/0"
	if _, refused = own.Admit([]network.HostNetwork{wide}, present); refused["s"] == "" {
		t.Error("a subnet that is replaced by a larger one is not examined")
	}
}

// TestFullSubnet: without an own address the host reaches its guests by the bridge, and says what it lacks.
func TestFullSubnet(t *testing.T) {
	n := subnet(routed(), "10.0.0.0/30", "10.0.0.1", "")
	n.Port, n.MAC = "", ""
	present := lan()
	settle(t, present, n)
	if a := present[n.Bridge].Addresses; len(a) != 1 || a[0].NoRoute {
		t.Errorf("no link leads to the guests: %v", a)
	}
	got := Shortages([]network.HostNetwork{n, routed()})
	if len(got) != 1 || got[0].Subject != n.ID ||
		!strings.Contains(got[0].Text, "no own address in the subnet 10.0.0.0/30, so it reaches only its own") {
		t.Errorf("conditions %+v", got)
	}
	settle(t, present, routed())
	if a := present[n.Bridge].Addresses; len(a) != 1 || !a[0].NoRoute {
		t.Errorf("two links lead to the guests: %v", a)
	}
	flat := subnet(provider("flat"), "10.0.0.0/30", "", "")
	if got = Shortages([]network.HostNetwork{flat}); len(got) != 1 || !strings.Contains(got[0].Text, "no DHCP") {
		t.Errorf("conditions %+v", got)
	}
}
