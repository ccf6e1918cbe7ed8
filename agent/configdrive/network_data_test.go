package configdrive

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// Each method has its type. What concerns a whole interface is there once, and only static addresses have addresses.
func TestNetworksOfAnInterface(t *testing.T) {
	static := func(more ...Route) Address {
		return Address{Method: "static", Address: "10.0.0.5", CIDR: "10.0.0.9/24", Gateway: "10.0.0.1", Routes: more}
	}
	dhcp := Address{Method: "dhcp", Address: "10.0.0.6", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1"}
	v6 := func(method string) Address {
		return Address{Method: method, Address: "fd00::5", CIDR: "fd00::/64"}
	}
	defaultRoute := route{"0.0.0.0", "0.0.0.0", "10.0.0.1"}
	fixed := subnet{Type: "ipv4", Address: "10.0.0.5", Netmask: "255.255.255.0", Routes: []route{defaultRoute}}
	for name, test := range map[string]struct {
		addresses []Address
		want      []subnet
	}{
		"not known":    {nil, []subnet{{Type: "ipv4_dhcp"}}},
		"no addresses": {[]Address{}, nil},
		"static":       {[]Address{static()}, []subnet{fixed}},
		"a default route replaces the gateway": {[]Address{static(Route{"0.0.0.0/0", "10.0.0.7"})}, []subnet{{Type: "ipv4",
			Address: "10.0.0.5", Netmask: "255.255.255.0", Routes: []route{{"0.0.0.0", "0.0.0.0", "10.0.0.7"}}}}},
		"without a gateway": {[]Address{v6("static")}, []subnet{{Type: "ipv6", Address: "fd00::5",
			Netmask: "ffff:ffff:ffff:ffff::", Routes: []route{}}}},
		"dhcp twice and static": {[]Address{dhcp, dhcp, static()}, []subnet{{Type: "ipv4_dhcp"}, fixed}},
		"dhcp of both versions": {[]Address{dhcp, v6("dhcp")}, []subnet{{Type: "ipv4_dhcp"}, {Type: "ipv6_dhcp"}}},
		"modes of IPv6": {[]Address{v6("slaac"), v6("dhcpv6-stateful"), v6("dhcpv6-stateless")},
			[]subnet{{Type: "ipv6_slaac"}, {Type: "ipv6_dhcpv6-stateful"}, {Type: "ipv6_dhcpv6-stateless"}}},
	} {
		got, err := Interface{Port: "p", Addresses: test.addresses}.subnets()
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, test.want)
		}
	}
}

// Addresses that are not valid are refused with the port, not written.
func TestInvalidAddressesAreRefused(t *testing.T) {
	for name, a := range map[string]Address{
		"address":    {Method: "static", Address: "10.0.0", CIDR: "10.0.0.0/24"},
		"no network": {Method: "static", Address: "10.0.0.5"},
		"network":    {Method: "static", Address: "10.0.0.5", CIDR: "10.0.0.0/33"},
		"versions":   {Method: "static", Address: "10.0.0.5", CIDR: "fd00::/64"},
		"no address": {Method: "dhcp"},
		"destination": {Method: "static", Address: "10.0.0.5", CIDR: "10.0.0.0/24",
			Routes: []Route{{"x", "10.0.0.1"}}},
		"version of the routes": {Method: "static", Address: "fd00::5", CIDR: "fd00::/64",
			Routes: []Route{{"1.2.3.0/24", "fd00::1"}}},
	} {
		_, err := Make(Server{ID: full.ID, Interfaces: []Interface{{Port: "p1", Addresses: []Address{a}}}})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "port p1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzNetworkData puts any texts into an address: the result is refused, or it is JSON in which each network has a link
// and a type, and a static one its address and mask.
func FuzzNetworkData(f *testing.F) {
	f.Add("static", "10.0.0.5", "10.0.0.0/24", "10.0.0.1", "0.0.0.0/0", 7)
	f.Add("static", "fd00::5", "fd00::/64", "", "::/0", 0)
	f.Add("slaac", "::ffff:1.2.3.4", "::/0", "", "", -1)
	f.Fuzz(func(t *testing.T, method, address, cidr, gateway, destination string, vlan int) {
		a := Address{Method: method, Address: address, CIDR: cidr, Gateway: gateway, DNS: []string{gateway}}
		if destination != "" {
			a.Routes = []Route{{destination, gateway}}
		}
		data, err := networkDataOf([]Interface{{Port: full.ID, VLAN: vlan, Addresses: []Address{a, a}}})
		if err != nil {
			return
		}
		text, err := json.Marshal(data)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s %v", text, err)
		}
		links := map[string]bool{}
		for _, l := range data.Links {
			links[l.ID] = true
		}
		for _, n := range data.Networks {
			static := n.Type == "ipv4" || n.Type == "ipv6"
			if !links[n.Link] || n.Type == "" || static != (n.Address != "" && n.Netmask != "") {
				t.Errorf("%s", text)
			}
		}
	})
}
