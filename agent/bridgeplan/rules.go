package bridgeplan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openberth/berth/api/network"
)

// MetadataPort is the TCP port to which requests of guests for metadata are redirected, Neutron's.
const MetadataPort = 9697

// metadata4 and metadata6 are the addresses of the metadata service for guests. Each bridge that routes IPv6 has
// metadata6, which is link-local.
const metadata4 = "169.254.169.254"

var metadata6 = Address{netip.MustParsePrefix("fe80::a9fe:a9fe/64"), true}

// Table is the name of Berth's tables of nftables for networks, in the families inet and bridge.
const Table = "berth_networks"

// NoRules is the input of `nft -f -` that removes the tables, whether they exist or not.
const NoRules = "table inet " + Table + "\ndelete table inet " + Table + "\n" +
	"table bridge " + Table + "\ndelete table bridge " + Table + "\n"

// Rules returns the input of `nft -f -` that replaces Berth's tables in one transaction:
//
//   - Guests of a routed network reach what is outside of the host, with an address of the host. They reach neither
//     other networks nor the host, beyond DHCP, DNS, metadata and an echo.
//   - From outside only answers reach guests.
//   - Frames of the gateway, of DHCP and of routers do not pass tunnels.
func (h Host) Rules(networks []network.HostNetwork) string {
	if len(networks) == 0 {
		return NoRules
	}
	r := rules{host: h, networks: networks}
	for _, n := range networks {
		r.inside = append(r.inside, r.host.sides(n)...)
	}
	slices.Sort(r.inside)
	var b strings.Builder
	b.WriteString(NoRules)
	fmt.Fprintf(&b, "table inet %s {\n", Table)
	r.chain(&b, "prerouting", "type nat hook prerouting priority dstnat; policy accept;", r.redirects())
	r.chain(&b, "postrouting", "type nat hook postrouting priority srcnat; policy accept;", r.masquerades())
	r.chain(&b, "to_host", "", r.toHost())
	r.chain(&b, "from_guests", "", r.fromGuests())
	r.chain(&b, "to_guests", "", []string{"ct state established,related accept", "drop"})
	if len(r.inside) > 0 {
		r.chain(&b, "input", "type filter hook input priority filter; policy accept;",
			[]string{"iifname " + names(r.inside) + " jump to_host"})
		r.chain(&b, "forward", "type filter hook forward priority filter; policy accept;", []string{
			"iifname " + names(r.inside) + " jump from_guests", "oifname " + names(r.inside) + " jump to_guests"})
	}
	b.WriteString("}\n")
	fmt.Fprintf(&b, "table bridge %s {\n", Table)
	r.chain(&b, "prerouting", "type filter hook prerouting priority -300; policy accept;", append(r.ownedByHost(),
		r.tunnelRules("iifname")...))
	r.chain(&b, "postrouting", "type filter hook postrouting priority 300; policy accept;", r.tunnelRules("oifname"))
	b.WriteString("}\n")
	return b.String()
}

// rules are the rules of the networks of a host. inside are the interfaces by which the host reaches guests.
type rules struct {
	host     Host
	networks []network.HostNetwork
	inside   []string
}

// sides returns the interfaces by which a host reaches the guests of a network. The bridge of an operator is not one of
// them: the operator decides what passes it.
func (h Host) sides(n network.HostNetwork) (list []string) {
	if !h.isOperators(n) {
		list = append(list, n.Bridge)
	}
	if n.Port != "" {
		list = append(list, OwnInterface(n.ID))
	}
	return list
}

func (rules) chain(b *strings.Builder, name, hook string, lines []string) {
	fmt.Fprintf(b, "\tchain %s {\n", name)
	if hook != "" {
		fmt.Fprintf(b, "\t\t%s\n", hook)
	}
	for _, line := range lines {
		fmt.Fprintf(b, "\t\t%s\n", line)
	}
	b.WriteString("\t}\n")
}

// names returns a set of interface names.
func names(list []string) string { return `{ "` + strings.Join(list, `", "`) + `" }` }

// redirects sends requests for metadata to the agent.
func (r rules) redirects() (lines []string) {
	for _, n := range r.networks {
		if side := servedBy(n, 4); side != "" {
			lines = append(lines, fmt.Sprintf("iifname %q ip daddr %s tcp dport 80 redirect to :%d", side, metadata4,
				MetadataPort))
		}
		if side := servedBy(n, 6); side != "" { // the address stays: a redirection might choose another one of the bridge
			lines = append(lines, fmt.Sprintf("iifname %[1]q ip6 daddr %[2]s tcp dport 80 dnat ip6 to [%[2]s]:%[3]d", side,
				metadata6.Prefix.Addr(), MetadataPort))
		}
	}
	return lines
}

// ServedBy returns the interfaces by which the host serves metadata to guests of a network, without duplicates; none:
// it has no address in the network.
func ServedBy(n network.HostNetwork) (list []string) {
	for _, version := range []int{4, 6} {
		if side := servedBy(n, version); side != "" && !slices.Contains(list, side) {
			list = append(list, side)
		}
	}
	return list
}

// servedBy returns the interface by which the host serves metadata by a version of IP: the bridge if it has gateways,
// or the host's own interface; empty: none. Without routing only IPv4 is served, because all hosts of such a network
// would have the one address of IPv6.
func servedBy(n network.HostNetwork, version int) string {
	switch {
	case routes(n, version):
		return n.Bridge
	case version == 4 && n.Port != "":
		return OwnInterface(n.ID)
	}
	return ""
}

// masquerades gives packets of guests an address of the host when they leave it.
func (r rules) masquerades() (lines []string) {
	for _, n := range r.networks {
		for _, s := range n.Subnets {
			if p, err := netip.ParsePrefix(s.CIDR); err == nil && hasGateway(n, s) {
				lines = append(lines, fmt.Sprintf("%[1]s saddr %[2]s %[1]s daddr != %[2]s oifname != %[3]s masquerade",
					word(s), p.Masked(), names(r.inside)))
			}
		}
	}
	return lines
}

// toHost lists what guests reach of the host, with addresses of their own network only: answers of others to the host
// cannot come from there. With br_netfilter a packet is tracked in the bridge and again here, so a
// refusal, which ends the tracked connection, is not known as an answer the second time.
func (r rules) toHost() []string {
	lines := []string{"udp sport 68 udp dport 67 accept", "ip6 saddr fe80::/10 udp sport 546 udp dport 547 accept",
		"icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept"}
	for _, n := range r.networks {
		if sides := r.host.sides(n); len(sides) > 0 {
			four, six := "iifname "+names(sides)+" meta nfproto ipv4", "iifname "+names(sides)+" ip6 saddr != fe80::/10"
			for _, s := range n.Subnets {
				if p, err := netip.ParsePrefix(s.CIDR); err == nil && p.Addr().Is4() {
					four += " ip saddr != " + p.Masked().String()
				} else if err == nil {
					six += " ip6 saddr != " + p.Masked().String()
				}
			}
			lines = append(lines, four+" drop", six+" drop")
		}
	}
	lines = append(lines, "icmp type redirect drop", "icmpv6 type nd-redirect drop",
		"ct state established,related accept", "tcp flags rst accept")
	for _, n := range r.networks {
		for _, version := range []int{4, 6} {
			lines = append(lines, r.services(n, version)...)
		}
	}
	return append(lines, "drop")
}

// services lists what guests of a network reach at the addresses of the host of a version of IP.
func (r rules) services(n network.HostNetwork, version int) []string {
	var own []string
	for _, s := range n.Subnets {
		if p, ok := gatewayOf(n, s); ok && s.IPVersion == version && !slices.Contains(own, p.Addr().String()) {
			own = append(own, p.Addr().String())
		}
		if p, ok := inSubnet(s, s.Address); ok && s.IPVersion == version && (version == 4 || hasGateway(n, s)) {
			own = append(own, p.Addr().String())
		}
	}
	if len(own) == 0 {
		return nil
	}
	from, echo := "iifname "+names(r.host.sides(n))+" ip daddr { "+strings.Join(own, ", ")+" } ", "icmp type echo-request"
	if version == 6 {
		from, echo = strings.Replace(from, "ip daddr", "ip6 daddr", 1), "icmpv6 type echo-request"
	}
	lines := []string{from + "meta l4proto { tcp, udp } th dport 53 accept", from + echo + " accept"}
	if version == 6 {
		from = fmt.Sprintf("iifname %q ip6 daddr %s ", n.Bridge, metadata6.Prefix.Addr())
	}
	return append(lines, from+fmt.Sprintf("tcp dport %d accept", MetadataPort))
}

// word returns nft's word for the version of IP of a subnet.
func word(s network.HostSubnet) string {
	if s.IPVersion == 6 {
		return "ip6"
	}
	return "ip"
}

// fromGuests lists what leaves the host. What stays in a bridge is seen here too, if br_netfilter is loaded.
func (r rules) fromGuests() (lines []string) {
	for _, n := range r.networks {
		if sides := r.host.sides(n); len(sides) > 0 {
			lines = append(lines, "iifname "+names(sides)+" oifname "+names(sides)+" accept")
		}
	}
	if len(r.inside) > 0 {
		lines = append(lines, "oifname "+names(r.inside)+" drop")
	}
	// With the address of the host they would be those of a router.
	lines = append(lines, "icmp type redirect drop", "icmpv6 type nd-redirect drop")
	if r.host.TunnelIP != "" {
		// With the address of this host, other hosts would take it for a frame of any network.
		lines = append(lines, fmt.Sprintf("udp dport %d drop", r.host.TunnelPort))
	}
	for _, n := range r.networks {
		for _, s := range n.Subnets {
			if p, err := netip.ParsePrefix(s.CIDR); err == nil && hasGateway(n, s) {
				lines = append(lines, fmt.Sprintf("iifname %q %s saddr %s accept", n.Bridge, word(s), p.Masked()))
			}
		}
	}
	return append(lines, "drop")
}

// ownedByHost drops frames that enter a bridge with a MAC address of the host as their source: the bridge would send
// what is meant for the host, or for the gateway, to a guest without port security.
func (r rules) ownedByHost() (lines []string) {
	for _, n := range r.networks {
		if routes(n, 4) || routes(n, 6) {
			lines = append(lines, "ether saddr "+GatewayMAC(n.ID)+" drop")
		}
		if n.Port != "" {
			lines = append(lines, fmt.Sprintf("iifname != %q ether saddr %s drop", ownPeer(n.ID), n.MAC))
		}
	}
	return lines
}

// tunnelRules keeps frames of the gateway, of DHCP and of routers from a tunnel.
func (r rules) tunnelRules(side string) (lines []string) {
	for _, n := range r.networks {
		if !n.Routed() {
			continue
		}
		at := fmt.Sprintf("%s %q ", side, tunnelName(n.SegmentationID))
		mac := GatewayMAC(n.ID)
		lines = append(lines, at+"ether saddr "+mac+" drop", at+"ether daddr "+mac+" drop")
		for _, s := range n.Subnets {
			if s.IPVersion == 4 && hasGateway(n, s) {
				lines = append(lines, at+"arp daddr ip "+s.Gateway+" drop", at+"arp saddr ip "+s.Gateway+" drop")
			}
		}
		lines = append(lines, at+"ether type ip udp dport { 67, 68 } drop", at+"ether type ip6 udp dport { 546, 547 } drop",
			at+"icmpv6 type { nd-router-solicit, nd-router-advert } drop")
	}
	return lines
}
