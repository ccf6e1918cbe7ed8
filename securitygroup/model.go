package securitygroup

import (
	"fmt"
	"net/netip"
	"slices"
)

// Group is a security group. Members are the addresses of the ports that have the group, for rules of groups that name
// it as their remote group; the rules of such a group may be left out.
type Group struct {
	ID        string
	Name      string
	Stateless bool // answers to permitted packets need rules of their own
	Rules     []Rule
	Members   []netip.Prefix
}

// Pair is an address or a network that a port may use with a MAC address; an empty MAC is that of the port.
type Pair struct {
	MAC     string
	Address netip.Prefix
}

// Port is what a decision about the packets of a port depends on.
type Port struct {
	ID        string
	MAC       string
	Addresses []netip.Addr
	Pairs     []Pair
	Secured   bool     // port_security_enabled
	Groups    []string // ids
}

// Packet is the first packet of a connection to or from a port. A value that its protocol does not have is 0.
type Packet struct {
	Direction   string // Ingress or Egress
	MAC         string // of the source; empty: that of the port
	Source      netip.Addr
	Destination netip.Addr
	Protocol    int
	SourcePort  int
	Port        int // of the destination
	Type, Code  int // of ICMP
}

// Decision is whether a packet passes, and why.
type Decision struct {
	Allowed bool
	Group   string // the group whose rule permits the packet
	Rule    string // the id of this rule; empty: no rule decides
	Reason  string
}

// Decide returns whether a port may send or receive a packet that belongs to no connection. Groups that are not in the
// map permit nothing.
func Decide(port Port, groups map[string]Group, p Packet) Decision {
	if !port.Secured {
		return Decision{Allowed: true, Reason: "the port has no port security, so nothing is filtered"}
	}
	if d, decided := decideBasics(port, p); decided {
		return d
	}
	for _, id := range port.Groups {
		for _, r := range groups[id].Rules {
			if r.permits(groups, p) {
				return Decision{Allowed: true, Group: id, Rule: r.ID, Reason: "the rule permits it"}
			}
		}
	}
	if len(port.Groups) == 0 {
		return Decision{Reason: "the port has no security group, so it receives and sends only what DHCP and IPv6 need"}
	}
	return Decision{Reason: "no rule of its security groups permits it"}
}

// decideBasics decides what does not depend on groups: DHCP, what IPv6 needs, and forged sources.
func decideBasics(port Port, p Packet) (d Decision, decided bool) {
	udp := func(from, to int) bool { return p.Protocol == UDP && p.SourcePort == from && p.Port == to }
	six, out := p.Destination.Is6(), p.Direction == Egress
	own := p.MAC == "" || slices.ContainsFunc(port.Sources(), func(s Pair) bool { return s.MAC == p.MAC })
	switch {
	case out && !own:
		return Decision{Reason: fmt.Sprintf("the port may not use the MAC address %s", p.MAC)}, true
	case out && (!six && udp(67, 68) || six && udp(547, 546)):
		return Decision{Reason: "a port may not answer as a DHCP server"}, true
	case out && p.Protocol == ICMPv6 && six && slices.Contains(Forbidden(), p.Type):
		return Decision{Reason: "a port may not send router advertisements and redirects"}, true
	case out && !six && udp(68, 67) && (p.Source.IsUnspecified() || port.owns(p)):
		return Decision{Allowed: true, Reason: "it is a request of DHCP"}, true
	case out && six && udp(546, 547) && port.owns(p):
		return Decision{Allowed: true, Reason: "it is a request of DHCPv6"}, true
	case out && isDiscovery(p, true) && (p.Source.IsUnspecified() || port.owns(p)):
		return Decision{Allowed: true, Reason: "IPv6 needs it to find neighbours and routers"}, true
	case out && !port.owns(p):
		return Decision{Reason: fmt.Sprintf("the port may not use the address %s", p.Source)}, true
	case !out && (!six && udp(67, 68) || six && udp(547, 546)):
		return Decision{Allowed: true, Reason: "it is an answer of DHCP"}, true
	case !out && isDiscovery(p, false):
		return Decision{Allowed: true, Reason: "IPv6 needs it to find neighbours and routers"}, true
	}
	return Decision{}, false
}

// The types of ICMPv6 that neighbour discovery and multicast use.
const (
	multicastQuery        = 130
	multicastReport       = 131
	multicastDone         = 132
	routerSolicitation    = 133
	routerAdvertisement   = 134
	neighbourSolicitation = 135
	neighbourAdvertise    = 136
	redirect              = 137
	multicastReport2      = 143
)

// Discovery returns the types of ICMPv6 that a port may always send or receive.
func Discovery(egress bool) []int {
	if egress {
		return []int{multicastReport, multicastDone, routerSolicitation, neighbourSolicitation, neighbourAdvertise,
			multicastReport2}
	}
	return []int{multicastQuery, routerAdvertisement, neighbourSolicitation, neighbourAdvertise}
}

// Forbidden returns the types of ICMPv6 that a port may never send, because only routers do.
func Forbidden() []int { return []int{routerAdvertisement, redirect} }

func isDiscovery(p Packet, egress bool) bool {
	return p.Protocol == ICMPv6 && p.Destination.Is6() && slices.Contains(Discovery(egress), p.Type)
}

// owns reports whether a port may use the source of a packet, with its MAC address.
func (port Port) owns(p Packet) bool {
	return slices.ContainsFunc(port.Sources(), func(s Pair) bool {
		return s.Address.Contains(p.Source) && (p.MAC == "" || s.MAC == p.MAC)
	})
}

// Sources returns what a port may use as the source of its packets: its addresses, its link-local address of IPv6, and
// its address pairs, each with a MAC address.
func (port Port) Sources() (all []Pair) {
	for _, a := range port.Addresses {
		all = append(all, Pair{port.MAC, netip.PrefixFrom(a, a.BitLen())})
	}
	macs := []string{port.MAC}
	for _, pair := range port.Pairs {
		if pair.MAC == "" {
			pair.MAC = port.MAC
		}
		macs = append(macs, pair.MAC)
		all = append(all, pair)
	}
	slices.Sort(macs)
	for _, mac := range slices.Compact(macs) {
		if local, ok := LinkLocal(mac); ok {
			all = append(all, Pair{mac, netip.PrefixFrom(local, 128)})
		}
	}
	return all
}

// LinkLocal returns the link-local address of IPv6 that a host forms from a MAC address (RFC 4291, appendix A).
func LinkLocal(mac string) (a netip.Addr, ok bool) {
	var m [6]byte
	n, err := fmt.Sscanf(mac, "%02x:%02x:%02x:%02x:%02x:%02x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5])
	if err != nil || n != 6 {
		return a, false
	}
	a = netip.AddrFrom16([16]byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	return a, true
}

// permits reports whether a rule permits a packet.
func (r Rule) permits(groups map[string]Group, p Packet) bool {
	n := r.number()
	if r.Direction != p.Direction || (r.EtherType == IPv4) != p.Destination.Is4() || n != 0 && n != p.Protocol {
		return false
	}
	switch {
	case r.Min == nil:
	case n == ICMP || n == ICMPv6:
		if *r.Min != p.Type || r.Max != nil && *r.Max != p.Code {
			return false
		}
	case p.Port < *r.Min || p.Port > *r.Max:
		return false
	}
	remote := p.Source
	if r.Direction == Egress {
		remote = p.Destination
	}
	switch {
	case r.RemoteGroup != "":
		return slices.ContainsFunc(groups[r.RemoteGroup].Members, func(m netip.Prefix) bool { return m.Contains(remote) })
	case r.RemotePrefix != "":
		prefix, err := netip.ParsePrefix(r.RemotePrefix)
		return err == nil && prefix.Contains(remote)
	}
	return true
}
