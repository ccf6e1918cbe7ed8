package operations

import (
	"context"
	"net/netip"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/securitygroup"
)

// ExplainPacket returns whether the security groups of a port let the first packet of a connection pass, and why. The
// packet has the end of the port that is missing: its first address of the family of the other end.
func (s SecurityGroups) ExplainPacket(ctx context.Context, id string, p securitygroup.Packet) (
	d api.PacketDecision, err error) {
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		port, err := GetIn[store.Port](ctx, tx, id)
		if err != nil {
			return err
		}
		of := securityPort(port)
		if err := setOwnEnd(of, &p); err != nil {
			return err
		}
		groups, err := groupsForDecision(ctx, tx, port)
		if err != nil {
			return err
		}
		got := securitygroup.Decide(of, groups, p)
		d = api.PacketDecision{Allowed: got.Allowed, Reason: got.Reason, Group: got.Group, GroupName: groups[got.Group].Name,
			Rule: got.Rule, Address: ownEnd(p).String()}
		d.NotEnforced = binding.NoFilter(port.Binding.VNIC, bandwidth.AgentType(port.Binding.Agent))
		return nil
	})
	return d, err
}

func ownEnd(p securitygroup.Packet) netip.Addr {
	if p.Direction == securitygroup.Egress {
		return p.Source
	}
	return p.Destination
}

// setOwnEnd sets the end of a packet that the port is.
func setOwnEnd(of securitygroup.Port, p *securitygroup.Packet) error {
	own, other := &p.Destination, p.Source
	if p.Direction == securitygroup.Egress {
		own, other = &p.Source, p.Destination
	}
	for _, a := range of.Addresses {
		if !own.IsValid() && a.Is4() == other.Is4() {
			*own = a
		}
	}
	if !own.IsValid() {
		return fault.New(fault.Conflict, "port %s has no address of the family of %s; name the address that it uses", of.ID,
			other)
	}
	return nil
}

// securityPort returns a port for decisions. Addresses that are not valid are left out.
func securityPort(p store.Port) securitygroup.Port {
	out := securitygroup.Port{ID: p.ID, MAC: p.MAC, Secured: p.PortSecurity, Groups: p.Groups}
	for _, ip := range p.FixedIPs {
		if a, err := address.Parse(ip.Address); err == nil {
			out.Addresses = append(out.Addresses, a)
		}
	}
	for _, pair := range p.Pairs {
		if prefix, ok := prefixOf(pair.Address); ok {
			out.Pairs = append(out.Pairs, securitygroup.Pair{MAC: pair.MAC, Address: prefix})
		}
	}
	return out
}

// prefixOf parses an address or a network.
func prefixOf(text string) (netip.Prefix, bool) {
	if a, err := address.Parse(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	return p, err == nil
}

// groupsForDecision returns the groups of a port, and the members of the groups that their rules name.
func groupsForDecision(ctx context.Context, tx *store.Tx, p store.Port) (map[string]securitygroup.Group, error) {
	list, err := hostGroups(ctx, tx, []api.HostPort{{PortIdentity: api.PortIdentity{Groups: p.Groups}}})
	groups := map[string]securitygroup.Group{}
	for _, g := range list {
		one := securitygroup.Group{ID: g.ID, Stateless: g.Stateless}
		for _, r := range g.Rules {
			one.Rules = append(one.Rules, securitygroup.Rule(r))
		}
		for _, m := range g.Members {
			if prefix, ok := prefixOf(m); ok {
				one.Members = append(one.Members, prefix)
			}
		}
		stored, _, err := store.Get[store.SecurityGroup](ctx, tx, g.ID)
		if err != nil {
			return nil, err
		}
		one.Name = stored.Name
		groups[g.ID] = one
	}
	return groups, err
}
