package configdrive

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/openberth/berth/fault"
)

// Interface is a network interface of the guest.
type Interface struct {
	Port    string // UUID
	MAC     string
	MTU     int    // bytes; 0: not known
	VLAN    int    // tag that the guest adds; 0: none
	Network string // UUID; empty: not known
	Device
	// Addresses are those of the port; nil: they are not known, and the guest asks for them by DHCP.
	Addresses []Address
}

// Address is one address of an interface. Method is static, dhcp, or a value of ipv6_address_mode.
type Address struct {
	Method  string
	Address string
	CIDR    string // of the subnet
	Gateway string // empty: none
	Routes  []Route
	DNS     []string // addresses of name servers
}

// Route is a route of the guest. Destination is in CIDR notation.
type Route struct{ Destination, NextHop string }

// networkData is network_data.json.
type networkData struct {
	Links    []link    `json:"links"`
	Networks []subnet  `json:"networks"`
	Services []service `json:"services"`
}

type link struct {
	ID   string `json:"id"`
	VIF  string `json:"vif_id"`
	Type string `json:"type"`
	MAC  string `json:"ethernet_mac_address,omitempty"`
	MTU  int    `json:"mtu,omitempty"`

	// of a link of type vlan
	On      string `json:"vlan_link,omitempty"`
	VLAN    int    `json:"vlan_id,omitempty"`
	VLANMAC string `json:"vlan_mac_address,omitempty"`
}

// subnet is an element of networks. The keys from ip_address on are those of a static address.
type subnet struct {
	ID      string `json:"id"`
	Link    string `json:"link"`
	Type    string `json:"type"`
	Network string `json:"network_id,omitempty"`

	Address  string    `json:"ip_address,omitempty"`
	Netmask  string    `json:"netmask,omitempty"`
	Routes   []route   `json:"routes,omitzero"`
	Services []service `json:"services,omitzero"`
}

type route struct {
	Network string `json:"network"`
	Netmask string `json:"netmask"`
	Gateway string `json:"gateway"`
}

type service struct {
	Type    string `json:"type"` // dns
	Address string `json:"address"`
}

// networkDataOf returns network_data.json of interfaces. It returns fault.Invalid for addresses and networks that are
// not valid.
func networkDataOf(interfaces []Interface) (networkData, error) {
	all := networkData{Links: []link{}, Networks: []subnet{}, Services: []service{}}
	for _, i := range interfaces {
		id := "tap" + i.Port[:min(len(i.Port), 11)]
		all.Links = append(all.Links, link{ID: id, VIF: i.Port, Type: "phy", MAC: i.MAC, MTU: i.MTU})
		if i.VLAN != 0 {
			all.Links = append(all.Links, link{ID: fmt.Sprintf("%s.%d", id, i.VLAN), VIF: i.Port, Type: "vlan", MTU: i.MTU,
				On: id, VLAN: i.VLAN, VLANMAC: i.MAC})
			id = fmt.Sprintf("%s.%d", id, i.VLAN)
		}
		list, err := i.subnets()
		if err != nil {
			return all, err
		}
		for _, s := range list {
			s.ID, s.Link, s.Network = fmt.Sprintf("network%d", len(all.Networks)), id, i.Network
			all.Networks = append(all.Networks, s)
		}
		for _, a := range i.Addresses {
			for _, s := range dns(a.DNS) {
				if !slices.Contains(all.Services, s) {
					all.Services = append(all.Services, s)
				}
			}
		}
	}
	return all, nil
}

// subnets returns the elements of networks for an interface, without id, link and network. What the guest gets for a
// whole interface, such as by DHCP, is one element for several addresses.
func (i Interface) subnets() (list []subnet, err error) {
	if i.Addresses == nil {
		return []subnet{{Type: "ipv4_dhcp"}}, nil
	}
	for _, a := range i.Addresses {
		s, err := a.subnet()
		if err != nil {
			return nil, fault.New(fault.Invalid, "port %s: %w", i.Port, err)
		}
		if s.Address == "" && slices.ContainsFunc(list, func(o subnet) bool { return o.Type == s.Type }) {
			continue
		}
		list = append(list, s)
	}
	return list, nil
}

// subnet returns the element of networks for an address.
func (a Address) subnet() (s subnet, err error) {
	at, err := netip.ParseAddr(a.Address)
	if err != nil {
		return s, err
	}
	s.Type = "ipv4"
	if at.Is6() {
		s.Type = "ipv6"
	}
	if a.Method != "static" {
		s.Type += "_" + a.Method
		return s, nil
	}
	in, err := prefixOf(a.CIDR, at)
	if err != nil {
		return s, err
	}
	s.Address, s.Netmask, s.Services = at.String(), netmask(in), dns(a.DNS)
	s.Routes, err = a.routes(at)
	return s, err
}

// routes returns the routes of a static address: that of the gateway, unless another one has its destination, and the
// others.
func (a Address) routes(at netip.Addr) (list []route, err error) {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if at.Is6() {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	list = []route{}
	hasDefault := false
	for _, r := range a.Routes {
		to, err := prefixOf(r.Destination, at)
		if err != nil {
			return nil, err
		}
		hasDefault = hasDefault || to == all
		list = append(list, route{Network: to.Addr().String(), Netmask: netmask(to), Gateway: r.NextHop})
	}
	if a.Gateway != "" && !hasDefault {
		first := route{Network: all.Addr().String(), Netmask: netmask(all), Gateway: a.Gateway}
		list = append([]route{first}, list...)
	}
	return list, nil
}

// prefixOf parses a network in CIDR notation that has the version of an address. Bits of hosts are removed.
func prefixOf(cidr string, of netip.Addr) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(cidr)
	if err == nil && p.Addr().Is4() != of.Is4() {
		err = fmt.Errorf("%s and %s have different versions of IP", cidr, of)
	}
	return p.Masked(), err
}

// netmask returns the mask of a network as an address: 255.255.255.0, ffff:ffff:ffff:ffff::.
func netmask(p netip.Prefix) string {
	return net.IP(net.CIDRMask(p.Bits(), p.Addr().BitLen())).String()
}

// dns returns name servers as services.
func dns(servers []string) (list []service) {
	for _, address := range servers {
		list = append(list, service{Type: "dns", Address: address})
	}
	return list
}
