// Package bridgeplan computes what a host has for the networks that it connects by Linux bridges: its links and their
// settings, the operations that lead there, the rules of nftables, and the files of its DHCP servers.
//
// A network of type vxlan is routed by its hosts:
//
//	tap… ─┐                  gateway address, the same on all hosts, and its MAC address
//	tap… ─┼─ bridge brq… ────┤
//	      ├─ vxlan-VNI       to the other hosts that have guests of the network
//	      └─ brp… ═══ bro…   the host's own address, from which it reaches all guests
//
// Frames of the gateway's MAC address do not leave the host, so each guest uses the gateway of its own host.
package bridgeplan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
)

// Host is what the operator has configured on a host.
type Host struct {
	TunnelIP   string            // [vxlan] local_ip; empty: no tunnels
	TunnelPort int               // [vxlan] udp_dstport
	Bridges    map[string]string // [linux_bridge] bridge_mappings: bridges of the operator by physical network
	Interfaces map[string]string // [linux_bridge] physical_interface_mappings: interfaces by physical network
}

// Kind is the kind of a link.
type Kind string

// The kinds of links that a plan creates, and Other for all that it does not create.
const (
	Bridge Kind = "bridge"
	VXLAN  Kind = "vxlan"
	VLAN   Kind = "vlan"
	Veth   Kind = "veth"
	Other  Kind = ""
)

// Address is an address of a link with the length of its network's prefix.
type Address struct {
	Prefix  netip.Prefix
	NoRoute bool // the network is not reached by this link
}

// Link is a network interface of the host. Desired and present links have the same form; a desired one has only what
// matters.
type Link struct {
	Name      string
	Kind      Kind
	Owner     string // UUID of the network for which Berth has made it; empty: it is not Berth's
	MAC       string // empty: any
	MTU       int
	Up        bool
	Master    string // the bridge that it belongs to; empty: none
	Addresses []Address
	Routes    []netip.Prefix    // of present links: networks that the host reaches by it, without the default route
	Settings  map[string]string // below /proc/sys/net, such as ipv4/conf/NAME/rp_filter

	Peer string   // of Veth: the other end
	VNI  int      // of VXLAN
	From string   // of VXLAN: the address of this host
	Port int      // of VXLAN: of UDP
	Ends []string // of VXLAN: the addresses of the other hosts, sorted
	On   string   // of VLAN: the link below
	Tag  int      // of VLAN
}

// OwnInterface returns the name of the host's own interface in a network.
func OwnInterface(network string) string { return "bro" + network[:min(len(network), 11)] }

// ownPeer returns the name of the other end of OwnInterface, which is in the bridge.
func ownPeer(network string) string { return "brp" + network[:min(len(network), 11)] }

// tunnelName returns the name of the VXLAN device of a VNI, as Neutron's agent forms it.
func tunnelName(vni int) string { return "vxlan-" + strconv.Itoa(vni) }

// GatewayMAC returns the MAC address of the gateways of a network, the same on each host: a locally administered one
// from the digits of its UUID.
func GatewayMAC(id string) string {
	digits := strings.ReplaceAll(id, "-", "")
	if len(digits) < 10 {
		digits += "0000000000"
	}
	mac := "02"
	for i := range 5 {
		mac += ":" + digits[2*i:2*i+2]
	}
	return mac
}

// isOperators reports whether the bridge of a network is the operator's.
func (h Host) isOperators(n network.HostNetwork) bool {
	return n.NetworkType == "flat" && h.Bridges[n.PhysicalNetwork] != "" && h.Bridges[n.PhysicalNetwork] == n.Bridge
}

// gatewayOf returns the address of the hosts in a subnet that they route, with the length of its prefix; false: they do
// not route it. The gateway of a subnet of IPv6 may be a link-local address.
func gatewayOf(n network.HostNetwork, s network.HostSubnet) (netip.Prefix, bool) {
	p, inside := inSubnet(s, s.Gateway)
	if a, err := netip.ParseAddr(s.Gateway); err == nil && a.Is6() && a.IsLinkLocalUnicast() {
		p, inside = netip.PrefixFrom(a, 64), true
	}
	return p, n.Routed() && inside && (s.IPVersion == 4 || n.MTU >= network.MinMTU6)
}

// hasGateway reports whether the hosts of a network route a subnet.
func hasGateway(n network.HostNetwork, s network.HostSubnet) bool {
	_, routed := gatewayOf(n, s)
	return routed
}

// answersDHCPv6 reports whether the host serves a subnet of IPv6 by DHCP that another router advertises.
func answersDHCPv6(n network.HostNetwork, s network.HostSubnet) bool {
	return !n.Routed() && s.IPVersion == 6 && s.DHCP && network.HostServesDHCPv6(s.IPv6Mode, s.CIDR, n.MTU)
}

// ownAddress returns the host's own address in a subnet with the length of its prefix; false: it does not use one.
func ownAddress(n network.HostNetwork, s network.HostSubnet) (netip.Prefix, bool) {
	p, inside := inSubnet(s, s.Address)
	return p, inside && (p.Addr().Is4() || hasGateway(n, s) || answersDHCPv6(n, s))
}

// routes reports whether the hosts of a network route a subnet of a version of IP.
func routes(n network.HostNetwork, version int) bool {
	return slices.ContainsFunc(n.Subnets, func(s network.HostSubnet) bool {
		return s.IPVersion == version && hasGateway(n, s)
	})
}

// Links returns the links that a host needs for its networks, in the order in which they are made. refused are the
// networks that cannot be connected, each with a sentence.
func (h Host) Links(networks []network.HostNetwork) (links []Link, refused map[string]string) {
	refused = map[string]string{}
	for _, n := range networks {
		list, refusal := h.linksOf(n)
		if refusal != "" {
			refused[n.ID] = refusal
			continue
		}
		links = append(links, list...)
	}
	return links, refused
}

// linksOf returns the links of a network.
func (h Host) linksOf(n network.HostNetwork) (links []Link, refusal string) {
	if !h.isOperators(n) {
		links = append(links, bridgeOf(n))
	}
	switch n.NetworkType {
	case "vxlan":
		if h.TunnelIP == "" {
			return nil, "it is of type vxlan; set [vxlan] local_ip on this host"
		}
		links = append(links, Link{Name: tunnelName(n.SegmentationID), Kind: VXLAN, Owner: n.ID, MTU: n.MTU, Up: true,
			Master: n.Bridge, VNI: n.SegmentationID, From: h.TunnelIP, Port: h.TunnelPort, Ends: slices.Sorted(
				slices.Values(n.Peers)), Settings: noIPv6(tunnelName(n.SegmentationID))})
	case "flat", "vlan":
		below := cmp.Or(h.Interfaces[n.PhysicalNetwork], h.Bridges[n.PhysicalNetwork])
		if below == "" {
			return nil, "this host is not connected to the physical network " + n.PhysicalNetwork + "; set [linux_bridge] " +
				"bridge_mappings or physical_interface_mappings"
		}
		switch {
		case n.NetworkType == "vlan":
			name := vlanName(below, n.SegmentationID)
			links = append(links, Link{Name: name, Kind: VLAN, Owner: n.ID, MTU: n.MTU, Up: true, Master: n.Bridge, On: below,
				Tag: n.SegmentationID, Settings: noIPv6(name)})
		case !h.isOperators(n):
			links = append(links, Link{Name: below, Kind: Other, Up: true, Master: n.Bridge})
		}
	}
	return append(links, ownLinks(n)...), ""
}

// vlanName returns the name of a VLAN device: a name of a Linux interface has at most 15 bytes.
func vlanName(below string, tag int) string {
	suffix := "." + strconv.Itoa(tag)
	return below[:min(len(below), 15-len(suffix))] + suffix
}

// noIPv6 are the settings of a link on which the host has no address of IPv6, not even a link-local one.
func noIPv6(name string) map[string]string {
	return map[string]string{"ipv6/conf/" + name + "/disable_ipv6": "1"}
}

// hostLink are the settings of a link with addresses of the host: it answers for these only (arp_ignore), asks with
// these only (arp_announce, because the gateway's address has another MAC address), and accepts packets of guests to
// which the host sends by the other link (rp_filter: loose). With IPv6 (six) it learns nothing from guests: no router,
// no address and no redirect.
func hostLink(name string, n network.HostNetwork, six bool) map[string]string {
	all := noIPv6(name)
	conf := "ipv4/conf/" + name + "/"
	all[conf+"arp_ignore"], all[conf+"arp_announce"], all[conf+"rp_filter"] = "1", "2", "2"
	all[conf+"forwarding"] = "0"
	if routes(n, 4) {
		all[conf+"forwarding"] = "1"
	}
	if !six {
		return all
	}
	conf = "ipv6/conf/" + name + "/"
	for _, refused := range []string{"accept_ra", "autoconf", "accept_redirects", "accept_dad", "addr_gen_mode"} {
		all[conf+refused] = "0"
	}
	all[conf+"disable_ipv6"], all[conf+"forwarding"] = "0", "0"
	if routes(n, 6) {
		all[conf+"forwarding"] = "1"
	}
	return all
}

// bridgeOf returns the bridge of a network. It has the gateways of the subnets that the hosts route, and with IPv6 the
// address of the metadata service. It is the way to the guests of a subnet in which the host has no own address.
func bridgeOf(n network.HostNetwork) Link {
	b := Link{Name: n.Bridge, Kind: Bridge, Owner: n.ID, MTU: n.MTU, Up: true}
	for _, s := range n.Subnets {
		p, ok := gatewayOf(n, s)
		if at := (Address{p, s.Address != "" || p.Addr().IsLinkLocalUnicast()}); ok && !slices.Contains(b.Addresses, at) {
			b.Addresses = append(b.Addresses, at)
		}
		// dnsmasq serves a subnet on an interface with an address of it.
		if at, own := inSubnet(s, s.Address); ok && own && p.Addr().IsLinkLocalUnicast() {
			b.Addresses = append(b.Addresses, Address{at, true})
		}
	}
	if routes(n, 6) && !slices.Contains(b.Addresses, metadata6) {
		b.Addresses = append(b.Addresses, metadata6)
	}
	if n.Routed() {
		b.MAC = GatewayMAC(n.ID)
	}
	b.Settings = hostLink(n.Bridge, n, routes(n, 6))
	return b
}

// ownLinks returns the host's own interface in a network and its end in the bridge; none without an own address.
func ownLinks(n network.HostNetwork) []Link {
	if n.Port == "" {
		return nil
	}
	own := Link{Name: OwnInterface(n.ID), Kind: Veth, Owner: n.ID, MAC: n.MAC, MTU: n.MTU, Up: true, Peer: ownPeer(n.ID)}
	six := routes(n, 6)
	for _, s := range n.Subnets {
		if p, ok := ownAddress(n, s); ok {
			own.Addresses = append(own.Addresses, Address{p, !hasGateway(n, s)})
			six = six || p.Addr().Is6()
		}
	}
	own.Settings = hostLink(own.Name, n, six)
	end := Link{Name: own.Peer, Kind: Veth, Owner: n.ID, MTU: n.MTU, Up: true, Master: n.Bridge, Peer: own.Name,
		Settings: noIPv6(own.Peer)}
	return []Link{own, end}
}

// inSubnet returns an address of a subnet with the length of its prefix; false: it is not one of the subnet.
func inSubnet(s network.HostSubnet, address string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(address)
	p, err2 := netip.ParsePrefix(s.CIDR)
	if err != nil || err2 != nil || !p.Contains(a) {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, p.Bits()), true
}

// Forwards reports whether the host routes one of the networks, so it must forward packets of a version of IP.
func Forwards(networks []network.HostNetwork, version int) bool {
	return slices.ContainsFunc(networks, func(n network.HostNetwork) bool { return routes(n, version) })
}

// WithoutIPv6 returns the networks of a host whose kernel has no IPv6: their subnets of IPv6 are neither routed nor
// served, and have no address of the host. conditions has a sentence for each network that has such a subnet.
func WithoutIPv6(networks []network.HostNetwork) (list []network.HostNetwork, conditions []condition.Condition) {
	for _, n := range networks {
		before := n
		n.Subnets = slices.Clone(n.Subnets)
		lacking := false
		for i, s := range n.Subnets {
			if s.IPVersion == 6 && (hasGateway(before, s) || answersDHCPv6(before, s)) {
				n.Subnets[i].Gateway, n.Subnets[i].Address, n.Subnets[i].DHCP = "", "", false
				lacking = true
			}
		}
		if lacking {
			conditions = append(conditions, condition.New(condition.Network, n.ID, "network "+n.ID+": this host does not "+
				"serve its subnets of IPv6: the kernel has no IPv6; boot it without ipv6.disable=1"))
		}
		list = append(list, n)
	}
	return list, conditions
}

// sorted returns the keys of settings in order.
func sorted(settings map[string]string) []string { return slices.Sorted(maps.Keys(settings)) }
