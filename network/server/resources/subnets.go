package resources

import (
	"maps"
	"net/netip"
	"net/url"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// ipv6Modes are the words of ipv6_ra_mode and ipv6_address_mode.
var ipv6Modes = []string{"slaac", "dhcpv6-stateful", "dhcpv6-stateless"}

// makesProviderNetworks is the rule for callers who know which addresses are outside of the cloud.
const makesProviderNetworks = "create_network:provider:network_type"

// subnets returns the collection of subnets.
func (s handlers) subnets() request.Collection {
	return request.Collection{One: "subnet", Many: "subnets", Missing: "SubnetNotFound",
		Attributes: request.With("network_id", "ip_version", "cidr", "gateway_ip", "enable_dhcp", "ipv6_ra_mode",
			"ipv6_address_mode", "segment_id", "subnetpool_id", "shared", "service_types"),
		Hidden: []string{"shared"},
		List:   s.listSubnets, Show: s.showSubnet, Draft: s.draftInNetwork, Create: s.createSubnet,
		Update: s.updateSubnet,
		Remove: func(c *request.Call, id string, revision int) error {
			return s.Ops.DeleteSubnet(c.R.Context(), id, revision)
		}}
}

func (s handlers) listSubnets(c *request.Call, q url.Values) (list []request.Document, err error) {
	ctx := c.R.Context()
	f := request.StoreFilter(q)
	f.Networks = q["network_id"]
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		found, err := store.List[store.Subnet](ctx, tx, f)
		if err != nil {
			return err
		}
		ids := map[string]bool{}
		for _, sub := range found {
			ids[sub.Network] = true
		}
		networks, err := networksByID(ctx, tx, ids)
		list = nil
		for _, sub := range found {
			list = append(list, subnetDocument(c, sub, networks[sub.Network]))
		}
		return err
	})
	return list, err
}

func (s handlers) showSubnet(c *request.Call, id string) (d request.Document, err error) {
	ctx := c.R.Context()
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		sub, err := operations.GetIn[store.Subnet](ctx, tx, id)
		if err != nil {
			return err
		}
		n, err := operations.GetIn[store.Network](ctx, tx, sub.Network)
		d = subnetDocument(c, sub, n)
		return err
	})
	return d, err
}

// subnetDocument returns the document of a subnet.
func subnetDocument(c *request.Call, sub store.Subnet, n store.Network) request.Document {
	view, shared := request.Common(sub.Base), n.Shared || c.IsShared(n.ID)
	pools, routes := []map[string]any{}, []map[string]any{}
	for _, p := range sub.Pools {
		pools = append(pools, map[string]any{"start": p.Start, "end": p.End})
	}
	for _, r := range sub.Routes {
		routes = append(routes, map[string]any{"destination": r.Destination, "nexthop": r.NextHop})
	}
	maps.Copy(view, map[string]any{"network_id": sub.Network, "ip_version": sub.IPVersion, "cidr": sub.CIDR,
		"gateway_ip": edge.OrNull(sub.Gateway), "enable_dhcp": sub.DHCP, "dns_nameservers": request.NotNil(sub.DNS),
		"allocation_pools": pools, "host_routes": routes, "ipv6_ra_mode": edge.OrNull(sub.RAMode),
		"ipv6_address_mode": edge.OrNull(sub.AddressMode), "segment_id": edge.OrNull(sub.Segment),
		"subnetpool_id": edge.OrNull(sub.SubnetPool),
		"service_types": request.NotNil(sub.Service), "shared": shared})
	return request.Document{View: view, Target: c.Target(sub.Project, map[string]any{"shared": shared,
		"network:project_id": n.Project, "network:tenant_id": n.Project})}
}

// How many elements the lists of a subnet may have. Its record is read for each port that gets an address of it, while
// no other client can write. Those of servers and routes are Neutron's defaults of max_dns_nameservers and
// max_subnet_host_routes.
const (
	maxDNSServers   = 5
	maxHostRoutes   = 20
	maxPools        = 256
	maxServiceTypes = 64
)

// readSubnet decodes the attributes of a subnet that creates and updates have in common. hasGateway reports whether
// gateway_ip was given.
func readSubnet(o *edge.Object, sub *store.Subnet) (hasGateway bool) {
	o.Text("name", &sub.Name, 255)
	o.Text("description", &sub.Description, 255)
	o.Flag("enable_dhcp", &sub.DHCP)
	if hasGateway = o.Text("gateway_ip", &sub.Gateway, 64); sub.Gateway != "" {
		if a, err := address.Parse(sub.Gateway); err == nil {
			sub.Gateway = a.String()
		}
	}
	if o.Has("dns_nameservers") {
		sub.DNS = nil
		o.Decode("dns_nameservers", &sub.DNS, "a list of addresses")
		request.LimitList(o, "dns_nameservers", len(sub.DNS), maxDNSServers)
	}
	if o.Has("service_types") {
		sub.Service = nil
		o.Decode("service_types", &sub.Service, "a list of texts")
		request.LimitList(o, "service_types", len(sub.Service), maxServiceTypes)
		for _, text := range sub.Service {
			if len(text) > 255 {
				o.Invalid("service_types", "an element has more than 255 bytes")
			}
		}
	}
	if o.Has("host_routes") {
		var list []struct{ Destination, NextHop string }
		sub.Routes = nil
		o.Decode("host_routes", &list, "a list of objects with destination and nexthop")
		request.LimitList(o, "host_routes", len(list), maxHostRoutes)
		for _, r := range list {
			sub.Routes = append(sub.Routes, store.HostRoute(r))
		}
	}
	if o.Has("allocation_pools") {
		var list []struct{ Start, End string }
		sub.Pools = nil
		o.Decode("allocation_pools", &list, "a list of objects with start and end")
		request.LimitList(o, "allocation_pools", len(list), maxPools)
		for _, p := range list {
			sub.Pools = append(sub.Pools, store.Pool(p))
		}
	}
	o.Ignore("dns_publish_fixed_ip", "router:external")
	return hasGateway
}

func (s handlers) createSubnet(c *request.Call, o *edge.Object) (request.Document, error) {
	sub := store.Subnet{DHCP: true}
	sub.Project, _ = c.Project(o)
	o.Text("network_id", &sub.Network, 255)
	o.Number("ip_version", &sub.IPVersion, 4, 6)
	o.Text("cidr", &sub.CIDR, 64)
	bits, useDefault := readSubnetPool(o, &sub)
	if p, err := netip.ParsePrefix(sub.CIDR); err == nil {
		sub.CIDR = p.Masked().String()
		if sub.IPVersion == 0 {
			sub.IPVersion = map[bool]int{true: 4, false: 6}[p.Addr().Is4()]
		}
	}
	o.Word("ipv6_ra_mode", &sub.RAMode, ipv6Modes...)
	o.Word("ipv6_address_mode", &sub.AddressMode, ipv6Modes...)
	o.Text("segment_id", &sub.Segment, 64)
	hasGateway := readSubnet(o, &sub)
	sub.UserChosen = !c.Permits(makesProviderNetworks, c.Target(sub.Project, nil))
	if err := o.Finish(); err != nil {
		return request.Document{}, err
	}
	var err error
	if sub.SubnetPool, err = s.visiblePool(c, sub, useDefault); err != nil {
		return request.Document{}, err
	}
	sub, err = pools{s}.operations().CreateSubnet(c.R.Context(), sub, hasGateway, bits)
	return subnetDocument(c, sub, store.Network{}), err
}

// readSubnetPool decodes the subnet pool of a new subnet, and returns the length of the prefix to allocate; 0: that of
// the pool.
func readSubnetPool(o *edge.Object, sub *store.Subnet) (bits int, useDefault bool) {
	o.Text("subnetpool_id", &sub.SubnetPool, 64)
	o.Flag("use_default_subnetpool", &useDefault)
	given := o.Number("prefixlen", &bits, 1, 128)
	switch {
	case useDefault && sub.SubnetPool != "":
		o.Invalid("use_default_subnetpool", "it excludes subnetpool_id; give one of them")
	case useDefault && sub.IPVersion == 0:
		o.Invalid("ip_version", "it is required with a subnet pool; give 4 or 6")
	case useDefault:
	case sub.SubnetPool == "" && sub.CIDR == "":
		o.Invalid("cidr", "it is required without subnetpool_id and use_default_subnetpool")
	case sub.SubnetPool == "" && given:
		o.Invalid("prefixlen", "it is the length of a subnet of a subnet pool; give subnetpool_id, or leave it out")
	case sub.SubnetPool != "" && sub.IPVersion == 0:
		o.Invalid("ip_version", "it is required with a subnet pool; give 4 or 6")
	}
	if sub.CIDR != "" && given {
		o.Invalid("prefixlen", "it excludes cidr; give one of them")
	}
	return bits, useDefault
}

// visiblePool returns the id of the subnet pool of a new subnet, which the caller may use; empty: none.
func (s handlers) visiblePool(c *request.Call, sub store.Subnet, useDefault bool) (id string, err error) {
	id = sub.SubnetPool
	if useDefault {
		p, err := pools{s}.operations().DefaultPool(c.R.Context(), sub.IPVersion)
		if err != nil {
			return "", err
		}
		id = p.ID
	}
	if id == "" {
		return "", nil
	}
	_, err = pools{s}.collection().Named().Read(c, id)
	return id, err
}

func (s handlers) updateSubnet(c *request.Call, id string, revision int, o *edge.Object) (request.Document, error) {
	_, err := s.Ops.UpdateSubnet(c.R.Context(), id, revision, func(sub *store.Subnet) error {
		o := o.Copy()
		if o.Has("gateway_ip") || o.Has("allocation_pools") {
			sub.UserChosen = sub.UserChosen || !c.Permits(makesProviderNetworks, c.Target(sub.Project, nil))
		}
		readSubnet(o, sub)
		return o.Finish()
	})
	if err != nil {
		return request.Document{}, err
	}
	return s.showSubnet(c, id)
}
