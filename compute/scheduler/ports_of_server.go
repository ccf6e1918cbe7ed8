package scheduler

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// This file reads the ports of a server before it is scheduled, for plans and for moves.

// Ports are the ports of a server, and what they request.
type Ports struct {
	List    []lifecycle.Port
	Planned []string // the networks of those that do not exist and that a move would create, by name
	wants   []portrequest.Port
}

// Finder returns the port of a requested network. existing are the ports of the server; those in used belong to
// other requests.
type Finder func(ctx context.Context, s lifecycle.Server, r lifecycle.NetworkRequest, existing []network.Port,
	used map[string]bool) (network.Port, error)

// CollectPorts returns the ports of a server, which find returns one by one, or why the server cannot have them.
func (c Scheduler) CollectPorts(ctx context.Context, s lifecycle.Server, find Finder) (all Ports,
	refusal string, err error) {
	if len(s.Networks) == 0 {
		return all, "", nil
	}
	var existing []network.Port // of the requests for a network, without a port
	if c.options.Network == nil || slices.ContainsFunc(s.Networks, func(r lifecycle.NetworkRequest) bool {
		return r.Port == ""
	}) {
		if existing, err = c.PortsOf(ctx, s); err != nil {
			return all, "", err
		}
	}
	networks := map[string]network.Network{}
	used := map[string]bool{}
	for _, n := range s.Networks {
		used[n.Port] = true
	}
	for _, requested := range s.Networks {
		if slices.Contains(s.DeletedPorts, requested.Port) {
			continue
		}
		p, err := find(ctx, s, requested, existing, used)
		if err != nil && RefusedByNetwork(err) {
			return all, fault.TextOf(err), nil
		}
		if err != nil {
			return all, "", err
		}
		used[p.ID] = true
		n, known := networks[p.Network]
		if !known {
			if n, err = c.options.Network.Network(ctx, p.Network); err != nil {
				return all, "", fault.Wrap(fault.Unavailable, err)
			}
			networks[p.Network] = n
		}
		if p.ID == "" {
			all.Planned = append(all.Planned, cmp.Or(n.Name, p.Network))
		}
		port := ReadPort(p, requested, n.Name)
		port.DNSName = GivenName(s, p)
		all.List, all.wants = append(all.List, port), append(all.wants, WantsOf(s, port, p, n))
	}
	return all, "", nil
}

// PortsOf returns the ports whose device is the server.
func (c Scheduler) PortsOf(ctx context.Context, s lifecycle.Server) ([]network.Port, error) {
	if c.options.Network == nil {
		return nil, fault.New(fault.Unavailable, "the ports of the server are not reachable: no "+
			"network service is configured; set [neutron] endpoint_override")
	}
	return c.options.Network.Ports(ctx, url.Values{"device_id": {s.ID}})
}

// ReadPorts returns the ports of a server as its move would have them, and changes nothing. A port that the move would
// create is a plain one without an id: what a policy of its network requests is known only when it exists.
func (c Scheduler) ReadPorts(ctx context.Context, s lifecycle.Server) (all Ports, refusal string, err error) {
	return c.CollectPorts(ctx, s, c.plannedPort)
}

// plannedPort is the Finder of ReadPorts.
func (c Scheduler) plannedPort(ctx context.Context, s lifecycle.Server, requested lifecycle.NetworkRequest,
	existing []network.Port, used map[string]bool) (network.Port, error) {
	if requested.Port != "" {
		p, err := c.options.Network.Port(ctx, requested.Port)
		if err == nil && p.Device != "" && p.Device != s.ID {
			err = PortInUse(p)
		}
		return p, err
	}
	if p, found := PortOfRequest(requested, existing, used); found {
		return p, nil
	}
	return network.Port{Network: requested.Network, ActiveBinding: network.ActiveBinding{VNIC: "normal"}}, nil
}

// PortOfRequest returns the port that was created for a requested network.
func PortOfRequest(r lifecycle.NetworkRequest, existing []network.Port, used map[string]bool) (p network.Port,
	found bool) {
	at := slices.IndexFunc(existing, func(p network.Port) bool {
		return p.Network == r.Network && !used[p.ID] && (r.FixedIP == "" || hasAddress(p, r.FixedIP))
	})
	if at < 0 {
		return p, false
	}
	return existing[at], true
}

// PortInUse returns the fault for a port of another device.
func PortInUse(p network.Port) error {
	return fault.New(fault.Conflict, "port %s is in use by device %s; choose another port", p.ID,
		p.Device).WithCode("PortInUse")
}

// ReadPort converts a port. Its allocation is that of binding:profile.
func ReadPort(p network.Port, r lifecycle.NetworkRequest, networkName string) lifecycle.Port {
	out := lifecycle.Port{ID: p.ID, Network: p.Network, NetworkName: networkName, MAC: p.MAC, VNIC: p.VNIC, Tag: r.Tag,
		Created: r.Port == "", Host: p.Host, VIF: p.VIF, Revision: p.Revision}
	out.Device = network.SlotOf(p.Profile)
	out = WithDetails(out, p)
	for _, ip := range p.FixedIPs {
		out.FixedIPs = append(out.FixedIPs, lifecycle.FixedIP(ip))
	}
	out.Groups = GroupsOf(p)
	if p.Request != nil {
		out.SameSubtree = slices.Sorted(slices.Values(p.Request.SameSubtree))
	}
	for group, at := range p.Allocation() {
		if out.Allocation == nil {
			out.Allocation = map[string]provider.ID{}
		}
		out.Allocation[cmp.Or(group, p.ID)] = provider.ID(at)
	}
	return out
}

// GivenName returns the dns_name that compute has given to a port of a server, or gives to it when it is bound; empty:
// the port has a name of its user, or the network service has no names. It is recorded before the port gets the name,
// and stays when the server is renamed.
func GivenName(s lifecycle.Server, p network.Port) string {
	recorded := s.Ports
	if s.PortChange != nil && s.PortChange.Port != nil {
		recorded = append(slices.Clone(recorded), *s.PortChange.Port)
	}
	at := slices.IndexFunc(recorded, func(r lifecycle.Port) bool { return r.ID == p.ID })
	name := s.DNSName()
	switch {
	case at >= 0 && recorded[at].DNSName != "":
		return recorded[at].DNSName
	case p.DNSName == nil:
		return ""
	case *p.DNSName == "":
		return name
	case at < 0 && *p.DNSName == name && strings.HasPrefix(p.DeviceOwner, "compute:"):
		return name // it was bound by an attachment that was interrupted, or after the backup that was restored
	}
	return ""
}

// WithDetails returns a port with what the network service says of its interface.
func WithDetails(port lifecycle.Port, p network.Port) lifecycle.Port {
	port.Bridge, _ = p.VIFDetails["bridge_name"].(string)
	port.VLAN = 0
	tag, tagged := p.VIFDetails["vlan"].(string)
	if !tagged {
		return port // an agent of Neutron adds the tag
	}
	switch {
	case p.VIF == hardwareBridge:
		port.VLAN, _ = strconv.Atoi(tag)
	case p.VIF == openVSwitch && p.VNIC == "normal":
		port.VLAN, _ = strconv.Atoi(tag)
		port.VLAN = cmp.Or(port.VLAN, lifecycle.Untagged)
	}
	return port
}

func hasAddress(p network.Port, address string) bool {
	return slices.ContainsFunc(p.FixedIPs, func(ip network.FixedIP) bool { return ip.Address == address })
}

// RefusedByNetwork reports whether the network service has refused a request in a way that a retry does not change.
func RefusedByNetwork(err error) bool {
	return slices.Contains([]fault.Kind{fault.NotFound, fault.Conflict, fault.Invalid, fault.NoCapacity,
		fault.Forbidden}, fault.KindOf(err))
}

// The vif_types of ports whose VLAN is added by the host: by the VF, or by a bridge of Open vSwitch. The guest of a
// whole PF adds it itself.
const (
	hardwareBridge = "hw_veb"
	openVSwitch    = "ovs"
)

// GroupsOf returns the groups that a port requests.
func GroupsOf(p network.Port) (groups []resource.Group) {
	if p.Request == nil {
		return nil
	}
	for _, g := range p.Request.Groups {
		group := resource.Group{Suffix: cmp.Or(g.ID, p.ID), Resources: g.Resources}
		for _, name := range g.Required {
			group.Required = append(group.Required, portrequest.ParseRequired(name))
		}
		groups = append(groups, group)
	}
	return groups
}

// WantsOf returns what a port of a server requests. A NUMA policy that the flavor must not have is left out: the flavor
// was checked before.
func WantsOf(s lifecycle.Server, port lifecycle.Port, p network.Port, n network.Network) portrequest.Port {
	policy, _ := flavor.DeviceAffinity(s.Flavor, s.SourceImage())
	want := portrequest.Port{ID: port.ID, VNICType: port.VNIC, PhysicalNetworks: n.PhysicalNetworks(),
		SameSubtree: port.SameSubtree, NUMAPolicy: cmp.Or(p.NUMAAffinity, string(policy)), Trusted: p.Trusted()}
	for _, g := range port.Groups {
		want.Groups = append(want.Groups, portrequest.Group{ID: g.Suffix, Required: g.Required, Resources: g.Resources})
	}
	return want
}

// WithPorts adds what ports request to the request of a flavor, and returns the devices that they need. Placement is
// asked for devices if an agent reports those for ports. It returns fault.Invalid for a port that no host can serve,
// and fault.Conflict for a group with the name of one of the flavor.
func (c Scheduler) WithPorts(ctx context.Context, ask resource.Ask, wants []portrequest.Port) (resource.Ask,
	[]pci.Request, error) {
	counted, err := c.portDevicesCounted(ctx, wants)
	if err != nil {
		return ask, nil, err
	}
	request, err := portrequest.Make(wants, portrequest.Options{DevicesInPlacement: counted})
	if err != nil {
		return ask, nil, err
	}
	for _, device := range request.Devices {
		at := slices.IndexFunc(wants, func(p portrequest.Port) bool { return p.ID == device.Port.ID })
		if !counted && len(wants[at].Groups) > 0 {
			return ask, nil, fault.New(fault.Invalid, "port %s has a guarantee and needs a device of "+
				"the same NIC, and no host reports such devices to Placement; set [berth] report_network_devices = true on "+
				"the hosts", device.Port.ID)
		}
	}
	ask, err = portrequest.Add(ask, request)
	return ask, request.Devices, err
}

// portDevicesCounted reports whether an agent reports devices for ports to Placement and one of the ports needs a
// device.
func (c Scheduler) portDevicesCounted(ctx context.Context, wants []portrequest.Port) (bool, error) {
	if !slices.ContainsFunc(wants, func(p portrequest.Port) bool {
		_, needed := portrequest.Class(p.VNICType)
		return needed
	}) {
		return false, nil
	}
	hosts, err := c.store.Hosts(ctx)
	return schedule.PortDevicesCounted(hosts), err
}
