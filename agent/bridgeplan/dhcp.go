package bridgeplan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openberth/berth/api/network"
)

// DHCP is a DHCP and DNS server of a network: the files of dnsmasq. A change of Config needs a new start, a change of
// the others a signal.
type DHCP struct {
	Network string
	Config  string // the options; %DIR% means the directory of the files
	Hosts   string // the addresses of ports
	Options string // what guests get with them
	Names   string // the names of addresses, as /etc/hosts
}

// Servers returns the DHCP servers of a host: one for each network with a subnet that has enable_dhcp and an address of
// the host. They answer only to the ports of this host, and advertise the host as the router of subnets of IPv6.
func Servers(all network.HostNetworks) (list []DHCP) {
	for _, n := range all.Networks {
		var served []network.HostSubnet
		for _, s := range n.Subnets {
			if s.DHCP && serverOf(n, s) != "" {
				served = append(served, s)
			}
		}
		if len(served) > 0 {
			list = append(list, server(n, served, all.Ports))
		}
	}
	return list
}

// serverOf returns the address by which the host serves a subnet; empty: it does not serve it. Where the host is not
// the router, guests learn from another one how they get their addresses of IPv6, so only a mode with DHCPv6 is served.
func serverOf(n network.HostNetwork, s network.HostSubnet) string {
	p, _ := netip.ParsePrefix(s.CIDR)
	switch {
	case s.IPVersion == 6 && !hasGateway(n, s) && !answersDHCPv6(n, s):
		return ""
	case s.IPVersion == 6 && (!network.CanServeDHCPv6(s.CIDR, n.MTU) || p.Bits() > 64 && formsAddresses(s)):
		return ""
	case hasGateway(n, s):
		return s.Gateway
	}
	return s.Address
}

// formsAddresses reports whether guests form their addresses of a subnet of IPv6 themselves.
func formsAddresses(s network.HostSubnet) bool {
	return s.IPv6Mode == network.SLAAC || s.IPv6Mode == network.DHCPv6Stateless
}

// leaseTime is how long guests keep their address without a renewal, in seconds: a day, as Neutron's.
const leaseTime = 86400

// server returns the DHCP server of a network for its served subnets.
func server(n network.HostNetwork, served []network.HostSubnet, ports []network.HostPort) DHCP {
	d := DHCP{Network: n.ID}
	domain := strings.Trim(n.DNSDomain, ".")
	if domain == "" {
		domain = "openstacklocal" // Neutron's default
	}
	lines := []string{"# Berth writes this file; changes are lost.", "no-hosts", "bind-dynamic",
		"except-interface=lo", "pid-file=%DIR%/pid", "dhcp-leasefile=%DIR%/leases", "dhcp-hostsfile=%DIR%/hosts",
		"dhcp-optsfile=%DIR%/options", "addn-hosts=%DIR%/names", "dhcp-authoritative", "dhcp-ignore=tag:!known",
		"dhcp-ignore-clid", // leases go by MAC addresses, which rules check
		"quiet-dhcp", "domain=" + domain, "local=/" + domain + "/", "expand-hosts", "domain-needed", "bogus-priv"}
	for _, side := range []string{n.Bridge, OwnInterface(n.ID)} {
		if slices.ContainsFunc(served, func(s network.HostSubnet) bool { return hasGateway(n, s) == (side == n.Bridge) }) {
			lines = append(lines, "interface="+side)
		}
	}

	for i, s := range served {
		tag := fmt.Sprintf("subnet%d", i)
		lines = append(lines, "dhcp-range=set:"+tag+","+rangeOf(n, s))
		if options := "tag:" + tag; s.IPVersion == 6 {
			d.Options += options6(n, s, options, domain)
		} else {
			d.Options += optionsOf(n, s, options)
		}
		for _, port := range ports {
			for _, ip := range port.FixedIPs {
				if port.Network == n.ID && ip.Subnet == s.ID {
					d.Hosts += fmt.Sprintf("%s,%s,%s\n", port.MAC, inBrackets(ip.Address), hostLabel(port.Name))
				}
			}
		}
	}
	if !routes(n, 4) && !routes(n, 6) {
		lines = append(lines, "port=0") // no DNS: the host has no route for its answers
	}
	if slices.ContainsFunc(served, func(s network.HostSubnet) bool { return s.IPVersion == 6 && hasGateway(n, s) }) {
		lines = append(lines, "enable-ra")
	}
	d.Config = strings.Join(append(lines, "dhcp-lease-max=65536"), "\n") + "\n"
	for _, name := range n.Names {
		label := hostLabels(name.Name)
		if strings.Contains(label, ".") { // dnsmasq would not add the domain: it could be the name of any other machine
			label += "." + domain
		}
		if label != "" {
			d.Names += name.Address + " " + label + "\n"
		}
	}
	return d
}

// rangeOf returns a subnet for the option dhcp-range. The words of the modes of IPv6 are those of dnsmasq: guests
// form their addresses (ra-only, with DHCP for options ra-stateless), or get them (static), also without a mode. What
// another router advertises is static.
func rangeOf(n network.HostNetwork, s network.HostSubnet) string {
	p, _ := netip.ParsePrefix(s.CIDR)
	mode := map[string]string{network.SLAAC: "ra-only", network.DHCPv6Stateless: "ra-stateless"}[s.IPv6Mode]
	switch {
	case s.IPVersion == 4:
		return fmt.Sprintf("%s,static,%s,%d", p.Masked().Addr(), netmask(p.Bits()), leaseTime)
	case mode == "" || !hasGateway(n, s):
		mode = "static"
	}
	return fmt.Sprintf("%s,%s,%d,%d", p.Masked().Addr(), mode, p.Bits(), leaseTime)
}

// inBrackets returns an address as dnsmasq expects it: one of IPv6 in brackets.
func inBrackets(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}

// parsed returns the texts that are addresses, as this host writes them. It leaves out others, and those with a zone,
// which may have any bytes: the network service refuses them.
func parsed(texts []string) (list []string) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
			list = append(list, a.String())
		}
	}
	return list
}

// options6 returns the lines of the options of a subnet of IPv6. dnsmasq advertises name servers and the domain too.
func options6(n network.HostNetwork, s network.HostSubnet, tag, domain string) string {
	servers := s.DNS
	if len(servers) == 0 && hasGateway(n, s) {
		servers = []string{s.Gateway}
	}
	line := ""
	for _, at := range parsed(servers) {
		line += "," + inBrackets(at)
	}
	if line != "" {
		line = tag + ",option6:dns-server" + line + "\n"
	}
	return line + tag + ",option6:domain-search," + domain + "\n"
}

// netmask returns the mask of a network of IPv4, such as 255.255.255.0.
func netmask(bits int) netip.Addr {
	mask := ^uint32(0) << (32 - bits)
	return netip.AddrFrom4([4]byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)})
}

// hostLabel returns the first part of a host name, which a guest gets as its own.
func hostLabel(name string) string {
	first, _, _ := strings.Cut(hostLabels(name), ".")
	return first
}

// hostLabels returns a host name without characters that would have a meaning in the files.
func hostLabels(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return -1
	}, name)
}

// optionsOf returns the lines of the options of a subnet. The guests of a subnet that the host does not route get a
// route to the metadata service by the host's own address.
func optionsOf(n network.HostNetwork, s network.HostSubnet, tag string) string {
	var b strings.Builder
	line := func(option string, values ...string) {
		fmt.Fprintf(&b, "%s\n", strings.Join(append([]string{tag, "option:" + option}, values...), ","))
	}
	switch {
	case len(s.DNS) > 0:
		line("dns-server", parsed(s.DNS)...)
	case hasGateway(n, s):
		line("dns-server", s.Gateway)
	default:
		line("dns-server") // none: the host has no route for its answers; without the line dnsmasq names itself
	}
	line("mtu", fmt.Sprint(n.MTU))
	if s.Gateway == "" {
		line("router") // empty: without it dnsmasq names itself
	} else {
		line("router", s.Gateway)
	}
	var routes []string
	for _, r := range s.Routes {
		routes = append(routes, r.Destination, r.NextHop)
	}
	if !hasGateway(n, s) {
		routes = append(routes, "169.254.169.254/32", s.Address)
	}
	if s.Gateway != "" && len(routes) > 0 && !slices.Contains(routes, "0.0.0.0/0") {
		routes = append(routes, "0.0.0.0/0", s.Gateway)
	}
	if len(routes) > 0 {
		line("classless-static-route", routes...)
	}
	return b.String()
}
