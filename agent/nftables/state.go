package nftables

import (
	"cmp"
	"context"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/securitygroup"
)

// Apply makes the kernel enforce the security groups of the ports of a host.
func (f *Filter) Apply(ctx context.Context, all network.HostNetworks) error {
	s, err := StateOf(all)
	if err != nil {
		return err
	}
	return f.apply(ctx, s)
}

// StateOf returns the state for the networks of a host. An address that is not valid is an error: without it a rule
// would be missing.
func StateOf(all network.HostNetworks) (groupfilter.State, error) {
	s := groupfilter.State{Groups: map[string]securitygroup.Group{}, Zones: map[string]groupfilter.Zone{}}
	for _, g := range all.Groups {
		one := securitygroup.Group{ID: g.ID, Stateless: g.Stateless}
		for _, r := range g.Rules {
			one.Rules = append(one.Rules, securitygroup.Rule(r))
		}
		for _, m := range g.Members {
			p, err := parsePrefix(m)
			if err != nil {
				return s, invalid("a member of security group", g.ID, err)
			}
			one.Members = append(one.Members, p)
		}
		s.Groups[g.ID] = one
	}
	for _, p := range all.Ports {
		one, err := portOf(p)
		if err != nil {
			return s, err
		}
		s.Ports = append(s.Ports, one)
	}
	return s, addZones(&s, all.Networks)
}

func invalid(what, id string, err error) error {
	return fault.New(fault.Invalid, "security groups are not enforced: %s %s is not valid: %w; the agent and the network "+
		"service must have the same version", what, id, err)
}

// parsePrefix parses an address or a network.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func portOf(p network.HostPort) (groupfilter.Port, error) {
	one := groupfilter.Port{Tap: network.TapName(p.ID), Bridge: p.Bridge, Port: securitygroup.Port{ID: p.ID, MAC: p.MAC,
		Secured: p.PortSecurity, Groups: p.Groups}}
	for _, ip := range p.FixedIPs {
		a, err := netip.ParseAddr(ip.Address)
		if err != nil {
			return one, invalid("an address of port", p.ID, err)
		}
		one.Addresses = append(one.Addresses, a)
	}
	for _, pair := range p.Pairs {
		prefix, err := parsePrefix(pair.Address)
		if err != nil {
			return one, invalid("an address pair of port", p.ID, err)
		}
		one.Pairs = append(one.Pairs, securitygroup.Pair{MAC: pair.MAC, Address: prefix.Masked()})
	}
	return one, nil
}

// addZones gives each network a zone. Its number comes from the id of the network, so that it is the same after a
// restart; networks whose ids have the same number get the next ones, in the order of the ids.
func addZones(s *groupfilter.State, networks []network.HostNetwork) error {
	networks = slices.Clone(networks)
	slices.SortFunc(networks, func(a, b network.HostNetwork) int { return cmp.Compare(a.ID, b.ID) })
	used := map[int]bool{}
	for _, n := range networks {
		hash := fnv.New32a()
		hash.Write([]byte(n.ID))
		const zones = 1<<16 - 1
		number := int(hash.Sum32()%zones) + 1
		for used[number] && len(used) < zones {
			number = number%zones + 1
		}
		used[number] = true
		zone := groupfilter.Zone{Number: number, Routed: n.Routed()}
		if n.Port != "" {
			zone.Own = bridgeplan.OwnInterface(n.ID)
		}
		for _, sub := range n.Subnets {
			prefix, err := netip.ParsePrefix(sub.CIDR)
			if err != nil {
				return invalid("a subnet of network", n.ID, err)
			}
			zone.Inside = append(zone.Inside, prefix.Masked())
			for _, text := range []string{sub.Gateway, sub.Address} {
				a, err := netip.ParseAddr(text)
				if n.Routed() && err == nil && !slices.Contains(zone.Host, a) {
					zone.Host = append(zone.Host, a)
				}
			}
		}
		s.Zones[n.Bridge] = zone
	}
	return nil
}
