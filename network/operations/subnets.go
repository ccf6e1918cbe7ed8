package operations

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/store"
)

// completeSubnet sets the gateway and the allocation pools of a new subnet, and refuses one that contradicts itself.
func completeSubnet(sub store.Subnet, hasGateway bool) (store.Subnet, error) {
	cidr, err := netip.ParsePrefix(sub.CIDR)
	if err != nil || address.Version(cidr.Addr()) != sub.IPVersion || cidr.Masked() != cidr {
		return sub, invalid("'%s' is not a valid IPv%d network; write for example 192.0.2.0/24, without host bits", sub.CIDR,
			sub.IPVersion)
	}
	if !hasGateway {
		sub.Gateway = address.DefaultGateway(cidr).String()
	}
	if sub.Pools == nil {
		for _, p := range address.DefaultPools(cidr, gateway(sub)) {
			sub.Pools = append(sub.Pools, store.Pool{Start: p.First.String(), End: p.Last.String()})
		}
	}
	return sub, checkSubnet(sub)
}

// createSubnet stores a new subnet that no other one of its network overlaps. Subnets of one IP version must have the
// same subnet pool.
func createSubnet(ctx context.Context, tx *store.Tx, s *Service, sub *store.Subnet) error {
	n, err := GetIn[store.Network](ctx, tx, sub.Network)
	if err != nil {
		return err
	}
	s.begin(&sub.Base)
	if err := s.checkQuota(ctx, tx, "subnet", sub.Project); err != nil {
		return err
	}
	if err := checkSegment(n, sub.Segment); err != nil {
		return err
	}
	others, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{sub.Network}})
	if err != nil {
		return err
	}
	cidr, err := netip.ParsePrefix(sub.CIDR)
	if err != nil {
		return err
	}
	for _, o := range others {
		if other, err := netip.ParsePrefix(o.CIDR); err == nil && other.Overlaps(cidr) {
			return invalid("Requested subnet with cidr: %s for network: %s overlaps with another subnet, %s (%s); use "+
				"another range", sub.CIDR, sub.Network, o.ID, o.CIDR)
		}
		if o.IPVersion == sub.IPVersion && o.SubnetPool != sub.SubnetPool {
			return fault.New(fault.Invalid, "Subnets hosted on the same network must be allocated from the same subnet pool: "+
				"subnet %s has %q; use that, or another network", o.ID, o.SubnetPool).WithCode("NetworkSubnetPoolAffinityError")
		}
	}
	if err := checkMTU(n, *sub); err != nil {
		return err
	}
	if err := checkRouted(ctx, tx, s, n, *sub); err != nil {
		return err
	}
	return putSubnet(ctx, tx, s, sub)
}

// checkSegment refuses a segment that the network does not have.
func checkSegment(n store.Network, segment string) error {
	for _, s := range n.Segments {
		if s.UUID == segment {
			return nil
		}
	}
	if segment == "" {
		return nil
	}
	return notFound("Segment", segment)
}

// gateway returns the gateway of a subnet; an invalid address means none.
func gateway(sub store.Subnet) netip.Addr {
	a, err := address.Parse(sub.Gateway)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// poolsOf returns the allocation pools of a subnet.
func poolsOf(sub store.Subnet) ([]address.Pool, error) {
	var pools []address.Pool
	for _, p := range sub.Pools {
		first, err1 := address.Parse(p.Start)
		last, err2 := address.Parse(p.End)
		if err1 != nil || err2 != nil {
			return nil, fault.New(fault.Invalid, "The allocation pool %s-%s is not valid.", p.Start, p.End).
				WithCode("InvalidAllocationPool")
		}
		pools = append(pools, address.Pool{First: first, Last: last})
	}
	return pools, nil
}

// checkSubnet refuses a subnet that contradicts itself.
func checkSubnet(sub store.Subnet) error {
	cidr, err := netip.ParsePrefix(sub.CIDR)
	if err != nil {
		return invalid("'%s' is not a network", sub.CIDR)
	}
	if kind := address.Special(cidr); kind != "" {
		return invalid("'%s' is not valid for a subnet: it contains %s; use another range, such as 10.0.0.0/24 or "+
			"fd00:10::/64", sub.CIDR, kind)
	}
	pools, err := poolsOf(sub)
	if err != nil {
		return err
	}
	if code, reason := address.CheckPools(cidr, gateway(sub), pools); code != "" {
		kind := fault.Invalid
		if code == "OverlappingAllocationPools" || code == "GatewayConflictWithAllocationPools" {
			kind = fault.Conflict
		}
		return fault.New(kind, "%s", reason).WithCode(code)
	}
	if sub.Gateway != "" {
		if g := gateway(sub); !g.IsValid() || address.Version(g) != sub.IPVersion {
			return invalid("gateway_ip '%s' is not an IPv%d address", sub.Gateway, sub.IPVersion)
		} else if sub.IPVersion == 4 && cidr.Contains(g) && !address.Hosts(cidr).Contains(g) {
			return invalid("Gateway is not valid on subnet: %s is the network or the broadcast address of %s; use another one",
				g, cidr)
		}
	}
	if sub.IPVersion == 4 && (sub.RAMode != "" || sub.AddressMode != "") {
		return invalid("ipv6_ra_mode or ipv6_address_mode cannot be set when ip_version is 4")
	}
	if sub.RAMode != "" && sub.AddressMode != "" && sub.RAMode != sub.AddressMode {
		return invalid("ipv6_ra_mode set to '%s' with ipv6_address_mode set to '%s' is not valid. If both attributes are "+
			"set, they must be the same value", sub.RAMode, sub.AddressMode)
	}
	if mode := cmp.Or(sub.RAMode, sub.AddressMode); mode != "" && !sub.DHCP {
		return invalid("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False")
	} else if address.BySLAAC(sub.IPVersion, mode) && cidr.Bits() != 64 {
		return invalid("a subnet with the mode %s must have the prefix length 64", mode)
	}
	return checkSubnetHosts(sub)
}

// checkSubnetHosts refuses DNS servers and routes that are not addresses of the subnet's IP version.
func checkSubnetHosts(sub store.Subnet) error {
	for _, text := range sub.DNS {
		if a, err := address.Parse(text); err != nil || address.Version(a) != sub.IPVersion {
			return invalid("dns_nameservers: '%s' is not an IPv%d address", text, sub.IPVersion)
		}
	}
	for _, r := range sub.Routes {
		to, err := netip.ParsePrefix(r.Destination)
		via, err2 := address.Parse(r.NextHop)
		if err != nil || err2 != nil || address.Version(to.Addr()) != sub.IPVersion ||
			address.Version(via) != sub.IPVersion {
			return invalid("host_routes: '%s' via '%s' is not a route of IPv%d", r.Destination, r.NextHop, sub.IPVersion)
		}
	}
	return nil
}

// UpdateSubnet changes a subnet. A gateway that ports have is refused.
func (s *Service) UpdateSubnet(ctx context.Context, id string, revision int,
	change func(*store.Subnet) error) (sub store.Subnet, err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if sub, err = current[store.Subnet](ctx, tx, id, revision); err != nil {
			return err
		}
		old := sub
		if err := change(&sub); err != nil {
			return err
		}
		if err := checkSubnet(sub); err != nil {
			return err
		}
		if sub.Gateway != old.Gateway {
			used, err := tx.Addresses(ctx, id)
			if err != nil {
				return err
			}
			if port := used[gateway(sub).String()]; sub.Gateway != "" && port != "" {
				return conflict("GatewayIpInUse", "Current gateway ip %s already in use by port %s. Unable to update.",
					sub.Gateway, port)
			}
			n, err := GetIn[store.Network](ctx, tx, sub.Network)
			if err != nil {
				return err
			}
			if err := checkRouted(ctx, tx, s, n, sub); err != nil {
				return err
			}
		}
		s.edited(&sub.Base)
		return putSubnet(ctx, tx, s, &sub)
	})
	return sub, err
}

// DeleteSubnet removes a subnet. The code of the conflict is SubnetInUse if a port has an address of it; addresses that
// hosts form themselves are removed from their ports.
func (s *Service) DeleteSubnet(ctx context.Context, id string, revision int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		sub, err := current[store.Subnet](ctx, tx, id, revision)
		if err != nil {
			return err
		}
		if err := leaveSubnet(ctx, tx, s, sub); err != nil {
			return err
		}
		used, err := tx.Addresses(ctx, id)
		if err != nil {
			return err
		}
		if len(used) > 0 && !address.BySLAAC(sub.IPVersion, sub.AddressMode) {
			return conflict("SubnetInUse", "Unable to complete operation on subnet %s: One or more ports have an IP "+
				"allocation from this subnet; %d ports, delete them or change their fixed_ips first", id, len(used))
		}
		for _, port := range used {
			if err := checkNotPending(ctx, tx, port); err != nil {
				return err
			}
			p, err := GetIn[store.Port](ctx, tx, port)
			if err != nil {
				return err
			}
			left := p.FixedIPs[:0:0]
			for _, ip := range p.FixedIPs {
				if ip.Subnet != id {
					left = append(left, ip)
				}
			}
			p.FixedIPs = left
			s.edited(&p.Base)
			if err := tx.PutPort(ctx, &p); err != nil {
				return err
			}
		}
		if err := editNetwork(ctx, tx, s, sub.Network); err != nil {
			return err
		}
		return store.Delete[store.Subnet](ctx, tx, id)
	})
}

// putSubnet writes a subnet, and counts it as a change of its network, as Neutron does.
func putSubnet(ctx context.Context, tx *store.Tx, s *Service, sub *store.Subnet) error {
	if err := editNetwork(ctx, tx, s, sub.Network); err != nil {
		return err
	}
	return store.Put(ctx, tx, sub)
}

// editNetwork counts a change of a network.
func editNetwork(ctx context.Context, tx *store.Tx, s *Service, id string) error {
	n, err := GetIn[store.Network](ctx, tx, id)
	if err != nil {
		return err
	}
	s.edited(&n.Base)
	return store.Put(ctx, tx, &n)
}
