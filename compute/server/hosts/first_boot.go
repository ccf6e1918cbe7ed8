package hosts

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// firstBoot is GET /berth/v1/hosts/{host}/guests/{server}: what the guest of a server that is assigned to the host
// reads from its config drive. User data may contain secrets, so no other host can read it.
func (s *Handlers) firstBoot(c *request.Call) error {
	id, name := c.R.PathValue("server"), c.R.PathValue("host")
	found, err := s.Store.Read(c.R.Context(), id)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found.Entries(), func(e lifecycle.Entry) bool { return e.Host == name }) {
		return fault.New(fault.NotFound, "the server %s is not assigned to the host %s", id, name)
	}
	out := host.FirstBoot{KeyName: found.KeyName, PublicKey: found.PublicKey, Metadata: found.Metadata,
		Hostname: found.Hostname, AdminPass: found.AdminPass,
		Project: found.Project, Zone: found.HostZone}
	_, out.Index = lifecycle.Reservation(found.ID)
	if found.UserData != "" {
		if out.UserData, err = lifecycle.DecodeUserData(found.UserData); err != nil {
			return fault.Wrap(fault.Internal, err)
		}
	}
	if out.Ports, err = s.bootPorts(c.R.Context(), found); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, out)
}

// dhcpOwners are the values of device_owner of ports that show where DHCP is served: those of Neutron's DHCP agents,
// and those of OVN, which answers DHCP itself.
var dhcpOwners = []string{"network:dhcp", "network:distributed"}

// bootPorts returns how the guest of a server configures the interfaces of its ports, in the order of the server. A
// port that does not exist any more is left out.
func (s *Handlers) bootPorts(ctx context.Context, of lifecycle.Server) ([]host.BootPort, error) {
	all := []host.BootPort{}
	if s.Networks == nil || len(of.Ports) == 0 {
		return all, nil
	}
	ports, err := s.Networks.Ports(ctx, url.Values{"device_id": {of.ID}})
	if err != nil {
		return nil, err
	}
	known, err := s.readBootNetworks(ctx, ports)
	if err != nil {
		return nil, err
	}
	for _, own := range of.Ports {
		at := slices.IndexFunc(ports, func(p network.Port) bool { return p.ID == own.ID })
		if at >= 0 {
			one := known.port(ports[at])
			one.Tag = own.Tag
			all = append(all, one)
		}
	}
	return all, nil
}

// bootNetworks are the networks of a server's ports.
type bootNetworks struct {
	networks []network.Network
	subnets  []network.Subnet
	served   map[string]bool // the subnets in which a DHCP server has an address, by id
}

// readBootNetworks reads the networks of ports, their subnets and their DHCP servers.
func (s *Handlers) readBootNetworks(ctx context.Context, ports []network.Port) (known bootNetworks, err error) {
	known.served = map[string]bool{}
	var ids []string
	for _, p := range ports {
		ids = append(ids, p.Network)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return known, nil
	}
	if known.networks, err = s.Networks.Networks(ctx, url.Values{"id": ids}); err != nil {
		return known, fault.Wrap("", err)
	}
	if known.subnets, err = s.Networks.Subnets(ctx, url.Values{"network_id": ids}); err != nil {
		return known, fault.Wrap("", err)
	}
	servers, err := s.Networks.Ports(ctx, url.Values{"network_id": ids, "device_owner": dhcpOwners})
	for _, p := range servers {
		for _, ip := range p.FixedIPs {
			known.served[ip.Subnet] = true
		}
	}
	return known, fault.Wrap("", err)
}

// port returns how a guest configures the interface of a port. The guest of a whole PF adds the VLAN itself.
func (b bootNetworks) port(p network.Port) host.BootPort {
	out := host.BootPort{Port: p.ID, Network: p.Network, Trusted: p.VIF == "hw_veb" && p.Trusted(),
		Addresses: []host.BootAddress{}}
	for _, n := range b.networks {
		if n.ID != p.Network {
			continue
		}
		out.MTU = n.MTU
		if p.VNIC == "direct-physical" && n.NetworkType == "vlan" {
			out.VLAN = n.SegmentationID
		}
	}
	for _, ip := range p.FixedIPs {
		at := slices.IndexFunc(b.subnets, func(sub network.Subnet) bool { return sub.ID == ip.Subnet })
		if at < 0 {
			continue
		}
		sub := b.subnets[at]
		served := b.served[sub.ID] && (sub.IPVersion != 6 || network.CanServeDHCPv6(sub.CIDR, out.MTU))
		one := host.BootAddress{Method: bootMethod(sub, served), Address: ip.Address, CIDR: sub.CIDR,
			Gateway: sub.Gateway, DNS: sub.DNS}
		for _, r := range sub.Routes {
			one.Routes = append(one.Routes, host.BootRoute(r))
		}
		out.Addresses = append(out.Addresses, one)
	}
	return out
}

// bootMethod returns the method by which guests get addresses of a subnet; served: a DHCP server serves it.
// With DHCP that no server serves, guests would wait for an answer and have no address, so they get it statically.
func bootMethod(sub network.Subnet, served bool) string {
	served = served && sub.DHCP
	switch {
	case sub.AddressMode == "slaac", sub.AddressMode == "dhcpv6-stateless", sub.AddressMode != "" && served:
		return sub.AddressMode
	case served:
		return host.DHCPAddress
	}
	return host.StaticAddress
}
