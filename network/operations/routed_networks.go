package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"slices"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/store"
)

// hostPortOwner is the device_owner of a host's own port on a network, Neutron's for the ports of DHCP agents.
const hostPortOwner = "network:dhcp"

// isHostPort reports whether a port is a host's own on a network that it connects by a Linux bridge.
func isHostPort(p store.Port) bool {
	return p.Owner == hostPortOwner && p.Binding.Agent == string(bandwidth.LinuxBridge)
}

// bridgeConfiguration is what a Linux bridge agent reports in its configurations, with Neutron's names.
type bridgeConfiguration struct {
	TunnelTypes    []string          `json:"tunnel_types"`
	TunnelingIP    string            `json:"tunneling_ip"`
	BridgeMappings map[string]string `json:"bridge_mappings"`
}

// bridging returns the configuration of a Linux bridge agent; that of another agent is empty.
func bridging(a store.Agent) (c bridgeConfiguration) {
	if a.Type != string(bandwidth.LinuxBridge) || json.Unmarshal([]byte(a.Conf), &c) != nil {
		return bridgeConfiguration{}
	}
	return c
}

// removeHostPorts removes the own ports of hosts on a network, unless it has other ports, and returns their number.
func removeHostPorts(ctx context.Context, tx *store.Tx, network string) (others int, err error) {
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Networks: []string{network}})
	if err != nil {
		return 0, err
	}
	for _, p := range ports {
		if !isHostPort(p) {
			others++
		}
	}
	for _, p := range ports {
		if others > 0 {
			break
		}
		if err := tx.DeletePort(ctx, p); err != nil {
			return 0, err
		}
	}
	return others, nil
}

// leaveSubnet takes the addresses of a subnet from the own ports of hosts, unless other ports have some: a host gets
// one again with its next request.
func leaveSubnet(ctx context.Context, tx *store.Tx, s *Service, sub store.Subnet) error {
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Networks: []string{sub.Network}})
	if err != nil {
		return err
	}
	in := func(ip store.FixedIP) bool { return ip.Subnet == sub.ID }
	for _, p := range ports {
		if !isHostPort(p) && slices.ContainsFunc(p.FixedIPs, in) {
			return nil
		}
	}
	for _, p := range ports {
		if isHostPort(p) && slices.ContainsFunc(p.FixedIPs, in) {
			p.FixedIPs = slices.DeleteFunc(slices.Clone(p.FixedIPs), in)
			s.edited(&p.Base)
			if err := tx.PutPort(ctx, &p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRouted refuses a subnet whose gateway is outside of it (see checkGateway), one of IPv6 that no host advertises,
// and one with a gateway that overlaps with one of another routed network: each host has the addresses of both, and
// packets to an address have one route. The hosts route vxlan networks if they are tenant networks, or if a Linux
// bridge agent has tunnels.
func checkRouted(ctx context.Context, tx *store.Tx, s *Service, n store.Network, sub store.Subnet) error {
	cidr, err := netip.ParsePrefix(sub.CIDR)
	if err != nil {
		return nil
	}
	if err := checkGateway(n, sub, cidr); err != nil || !isTunnelled(n) {
		return err
	}
	ends, err := tx.TunnelEnds(ctx)
	if err != nil || len(ends) == 0 && !slices.Contains(s.Segments.TenantTypes, "vxlan") {
		return err
	}
	if err := checkAdvertised(sub); err != nil || sub.Gateway == "" {
		return err
	}
	networks, err := store.List[store.Network](ctx, tx, store.Filter{})
	if err != nil {
		return err
	}
	tunnelled := map[string]bool{}
	for _, other := range networks {
		tunnelled[other.ID] = other.ID != n.ID && isTunnelled(other)
	}
	subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{})
	for _, o := range subnets {
		other, err := netip.ParsePrefix(o.CIDR)
		if err != nil || o.Gateway == "" || !tunnelled[o.Network] || !other.Overlaps(cidr) {
			continue
		}
		return conflict("SubnetOverlapsRoutedNetwork", "the subnet %s overlaps with %s, a subnet of another network that "+
			"the hosts route; use another range, or set gateway_ip to null for a network without a way out", cidr, other)
	}
	return err
}

// checkAdvertised refuses a subnet of a network that the hosts route, whose guests would wait for router advertisements
// that no host sends.
func checkAdvertised(sub store.Subnet) error {
	mode := cmp.Or(sub.RAMode, sub.AddressMode)
	if sub.Gateway != "" || mode != api.SLAAC && mode != api.DHCPv6Stateless {
		return nil
	}
	return invalid("no host advertises %s with the mode %s: the subnet has no gateway, and the gateway is what the hosts "+
		"advertise; set gateway_ip, or set neither ipv6_ra_mode nor ipv6_address_mode: guests then get their addresses by "+
		"the config drive", sub.CIDR, mode)
}

// checkMTU refuses subnets of IPv6 in a network with an MTU that IPv6 does not permit: no system configures IPv6 there.
func checkMTU(n store.Network, subnets ...store.Subnet) error {
	for _, sub := range subnets {
		if sub.IPVersion == 6 && n.MTU < api.MinMTU6 {
			return conflict("NetworkMTUSubnetConflict", "the MTU %d of network %s is not valid with the subnet %s: IPv6 needs "+
				"at least %d; set a larger MTU, or use another network for the subnet", n.MTU, n.ID, sub.CIDR, api.MinMTU6)
		}
	}
	return nil
}

// checkGateway refuses a gateway outside of the subnet on a network that a host routes, or that has no way to another
// host: the hosts would answer for an address that another machine may have, and for all networks. A link-local address
// of IPv6 is accepted, and any address on a network of a physical network, where another machine is the gateway.
func checkGateway(n store.Network, sub store.Subnet, cidr netip.Prefix) error {
	if sub.Gateway == "" {
		return nil
	}
	at, err := address.Parse(sub.Gateway)
	if err != nil || cidr.Contains(at) || at.Is6() && at.IsLinkLocalUnicast() {
		return err
	}
	for _, seg := range n.Segments {
		if seg.Type == "vxlan" || seg.Type == "local" {
			return invalid("Gateway is not valid on subnet: %s is not in %s, and the network is of type %s; use an address "+
				"of the subnet, or set gateway_ip to null", at, cidr, seg.Type)
		}
	}
	return nil
}

// isTunnelled reports whether a network has a segment of type vxlan, which its hosts route.
func isTunnelled(n store.Network) bool {
	return slices.ContainsFunc(n.Segments, func(seg store.Segment) bool { return seg.Type == "vxlan" })
}
