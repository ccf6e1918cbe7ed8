package bridgeplan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openberth/berth/api/network"
)

// MetadataPort is the TCP port to which requests of guests for 169.254.169.254 are redirected, Neutron's.
const MetadataPort = 9697

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
//   - Frames of the gateway and of DHCP do not pass tunnels.
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
		if side := ServedBy(n); side != "" {
			lines = append(lines, fmt.Sprintf("iifname %q ip daddr 169.254.169.254 tcp dport 80 redirect to :%d", side,
				MetadataPort))
		}
	}
	return lines
}

// ServedBy returns the interface by which the host serves metadata and DNS to guests of a network: the bridge if it has
// gateways, or the host's own interface; empty: it has no address in the network.
func ServedBy(n network.HostNetwork) string {
	switch {
	case Forwards([]network.HostNetwork{n}):
		return n.Bridge
	case n.Port != "":
		return OwnInterface(n.ID)
	}
	return ""
}

// masquerades gives packets of guests an address of the host when they leave it.
func (r rules) masquerades() (lines []string) {
	for _, n := range r.networks {
		for _, s := range n.Subnets {
			if p, err := netip.ParsePrefix(s.CIDR); err == nil && hasGateway(n, s) {
				lines = append(lines, fmt.Sprintf("ip saddr %s ip daddr != %s oifname != %s masquerade", p.Masked(), p.Masked(),
					names(r.inside)))
			}
		}
	}
	return lines
}

// toHost lists what guests reach of the host, with addresses of their own network only: answers of others to the host
// cannot come from there. With br_netfilter a packet is tracked in the bridge and again here, so a
// refusal, which ends the tracked connection, is not known as an answer the second time.
func (r rules) toHost() []string {
	lines := []string{"udp sport 68 udp dport 67 accept"}
	for _, n := range r.networks {
		if sides := r.host.sides(n); len(sides) > 0 {
			line := "iifname " + names(sides)
			for _, s := range n.Subnets {
				if p, err := netip.ParsePrefix(s.CIDR); err == nil && p.Addr().Is4() {
					line += " ip saddr != " + p.Masked().String()
				}
			}
			lines = append(lines, line+" drop")
		}
	}
	lines = append(lines, "icmp type redirect drop", "ct state established,related accept", "tcp flags rst accept")
	for _, n := range r.networks {
		var own []string
		for _, s := range n.Subnets {
			for _, address := range []string{s.Gateway, s.Address} {
				if p, ok := inSubnet(s, address); ok && p.Addr().Is4() && (address == s.Address || hasGateway(n, s)) {
					own = append(own, address)
				}
			}
		}
		if sides := r.host.sides(n); len(own) > 0 {
			from := "iifname " + names(sides) + " ip daddr { " + strings.Join(own, ", ") + " } "
			lines = append(lines, from+"meta l4proto { tcp, udp } th dport 53 accept",
				from+fmt.Sprintf("tcp dport %d accept", MetadataPort), from+"icmp type echo-request accept")
		}
	}
	return append(lines, "drop")
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
	lines = append(lines, "icmp type redirect drop") // the address of the host would make it one of a router
	if r.host.TunnelIP != "" {
		// With the address of this host, other hosts would take it for a frame of any network.
		lines = append(lines, fmt.Sprintf("udp dport %d drop", r.host.TunnelPort))
	}
	for _, n := range r.networks {
		for _, s := range n.Subnets {
			if p, err := netip.ParsePrefix(s.CIDR); err == nil && hasGateway(n, s) {
				lines = append(lines, fmt.Sprintf("iifname %q ip saddr %s accept", n.Bridge, p.Masked()))
			}
		}
	}
	return append(lines, "drop")
}

// ownedByHost drops frames that enter a bridge with a MAC address of the host as their source: the bridge would send
// what is meant for the host, or for the gateway, to a guest without port security.
func (r rules) ownedByHost() (lines []string) {
	for _, n := range r.networks {
		if Forwards([]network.HostNetwork{n}) {
			lines = append(lines, "ether saddr "+GatewayMAC(n.ID)+" drop")
		}
		if n.Port != "" {
			lines = append(lines, fmt.Sprintf("iifname != %q ether saddr %s drop", ownPeer(n.ID), n.MAC))
		}
	}
	return lines
}

// tunnelRules keeps frames of the gateway and of DHCP from a tunnel.
func (r rules) tunnelRules(side string) (lines []string) {
	for _, n := range r.networks {
		if !n.Routed() {
			continue
		}
		at := fmt.Sprintf("%s %q ", side, tunnelName(n.SegmentationID))
		mac := GatewayMAC(n.ID)
		lines = append(lines, at+"ether saddr "+mac+" drop", at+"ether daddr "+mac+" drop")
		for _, s := range n.Subnets {
			if hasGateway(n, s) {
				lines = append(lines, at+"arp daddr ip "+s.Gateway+" drop", at+"arp saddr ip "+s.Gateway+" drop")
			}
		}
		lines = append(lines, at+"ether type ip udp dport { 67, 68 } drop")
	}
	return lines
}
