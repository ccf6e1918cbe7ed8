package bridgeplan

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
)

// Admit returns the networks without the subnets that would cut the host off from what it reaches otherwise. refused
// are these subnets, and the networks that are left out because no other subnet remains, by UUID, each with a
// sentence. Users choose subnets, gateways and own addresses, so each subnet is examined until its addresses are those
// of the network's links. A network that the host has stays. present are all links with the routes of the host.
func (h Host) Admit(networks []network.HostNetwork, present map[string]Link) (admitted []network.HostNetwork,
	refused map[string]string) {
	refused = map[string]string{}
	for _, n := range networks {
		var left []network.HostSubnet
		for _, s := range n.Subnets {
			why := h.conflict(n, s, present)
			if why == "" {
				why = routedElsewhere(n, s, networks)
			}
			if why == "" {
				left = append(left, s)
				continue
			}
			refused[s.ID] = "its subnet " + s.CIDR + " " + why
		}
		if len(left) == 0 && len(n.Subnets) > 0 && present[n.Bridge].Owner != n.ID {
			refused[n.ID] = refused[n.Subnets[0].ID]
			continue
		}
		n.Subnets = left
		admitted = append(admitted, n)
	}
	return admitted, refused
}

// NeedsRoutes reports whether Admit needs the routes of the host: a network has a subnet whose addresses its links do
// not have.
func NeedsRoutes(networks []network.HostNetwork, present map[string]Link) bool {
	return slices.ContainsFunc(networks, func(n network.HostNetwork) bool {
		return slices.ContainsFunc(n.Subnets, func(s network.HostSubnet) bool {
			return isChosen(n, s) && len(addressesOf(n, s)) > 0 && !isHeld(n, s, present)
		})
	})
}

// isChosen reports whether a user has chosen a subnet freely. The subnets that an administrator makes of provider
// networks exist outside.
func isChosen(n network.HostNetwork, s network.HostSubnet) bool {
	return n.Routed() || n.NetworkType == "local" || s.UserChosen
}

// addressesOf returns the addresses that the host gets in a subnet, with the length of its prefix.
func addressesOf(n network.HostNetwork, s network.HostSubnet) (list []netip.Prefix) {
	if p, routed := gatewayOf(n, s); routed && !p.Addr().IsLinkLocalUnicast() {
		list = append(list, p)
	}
	if p, used := ownAddress(n, s); used {
		list = append(list, p)
	}
	return list
}

// isHeld reports whether the links of a network have an address of a subnet.
func isHeld(n network.HostNetwork, s network.HostSubnet, present map[string]Link) bool {
	for _, name := range []string{n.Bridge, OwnInterface(n.ID)} {
		for _, a := range present[name].Addresses {
			if present[name].Owner == n.ID && slices.Contains(addressesOf(n, s), a.Prefix) {
				return true
			}
		}
	}
	return false
}

// conflict returns why the host must not have its addresses in a subnet; empty: it may.
func (h Host) conflict(n network.HostNetwork, s network.HostSubnet, present map[string]Link) string {
	gateway, err := netip.ParseAddr(s.Gateway)
	subnet, err2 := netip.ParsePrefix(s.CIDR)
	if n.Routed() && err == nil && err2 == nil && !subnet.Contains(gateway) && !gateway.IsLinkLocalUnicast() {
		return "does not contain its gateway " + s.Gateway + "; set another gateway_ip"
	}
	addresses := addressesOf(n, s)
	for _, a := range addresses {
		if what := h.reaches(netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), n.Peers, present, true); what != "" {
			return "gives this host the address " + a.Addr().String() + ", which is " + what + "; use another address or subnet"
		}
	}
	if len(addresses) == 0 || !isChosen(n, s) || isHeld(n, s, present) {
		return ""
	}
	if what := h.reaches(subnet.Masked(), n.Peers, present, false); what != "" {
		return "overlaps with " + what + " of this host, which it would cut off; use another subnet"
	}
	return ""
}

// reaches returns by what the host reaches a part of a subnet without Berth; empty: it does not. exactly: only what has
// an address of the subnet itself counts, not the networks around it.
func (h Host) reaches(subnet netip.Prefix, peers []string, present map[string]Link, exactly bool) string {
	for _, text := range append([]string{h.TunnelIP}, peers...) {
		if a, err := netip.ParseAddr(text); err == nil && subnet.Contains(a) {
			return "the tunnel to " + text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		l := present[name]
		if l.Owner != "" {
			continue
		}
		for _, a := range l.Addresses {
			if subnet.Contains(a.Prefix.Addr()) || !exactly && a.Prefix.Overlaps(subnet) {
				return "the address " + a.Prefix.String() + " of " + name
			}
		}
		for _, r := range l.Routes {
			if !exactly && r.Overlaps(subnet) {
				return "the route to " + r.String() + " by " + name
			}
		}
	}
	return ""
}

// routedElsewhere returns why the host must not have its own address in a subnet that it does not route: another
// network that it routes has this address, maybe for a guest. Empty: none has.
func routedElsewhere(n network.HostNetwork, s network.HostSubnet, networks []network.HostNetwork) string {
	own, inside := inSubnet(s, s.Address)
	if !isChosen(n, s) || hasGateway(n, s) || !inside {
		return ""
	}
	for _, other := range networks {
		for _, o := range other.Subnets {
			p, err := netip.ParsePrefix(o.CIDR)
			if other.ID != n.ID && err == nil && hasGateway(other, o) && p.Contains(own.Addr()) {
				return "gives this host the address " + s.Address + ", which is part of a network that it routes; use " +
					"another subnet, or one with a gateway"
			}
		}
	}
	return ""
}

// Shortages returns a sentence for each subnet in which the host lacks an own address, sorted.
func Shortages(networks []network.HostNetwork) (list []condition.Condition) {
	for _, n := range networks {
		for _, s := range n.Subnets {
			if s.Address != "" || !hasGateway(n, s) && (!s.DHCP || s.IPVersion == 6 && !answersDHCPv6(n, s)) {
				continue
			}
			lacks := "it serves no DHCP and no metadata there"
			switch {
			case s.IPVersion == 6 && !hasGateway(n, s):
				lacks = "it serves no DHCP there"
			case hasGateway(n, s):
				lacks = "it reaches only its own guests"
			}
			list = append(list, condition.New(condition.Network, n.ID, "network "+n.ID+": this host has no own address in "+
				"the subnet "+s.CIDR+", so "+lacks+"; free addresses of all subnets of the network"))
		}
	}
	return condition.Sorted(list)
}
