package server

import (
	"context"
	"maps"
	"net/url"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// networks returns the collection of networks.
func (s handlers) networks() collection {
	return collection{one: "network", many: "networks", missing: "NetworkNotFound",
		attributes: with("admin_state_up", "status", "shared", "router:external", "mtu", "subnets", "provider:network_type",
			"provider:physical_network", "provider:segmentation_id", "qos_policy_id", "is_default", "port_security_enabled",
			"dns_domain"),
		list: s.listNetworks, show: s.showNetwork, draft: draftProject, create: s.createNetwork,
		update: s.updateNetwork, check: s.checkPolicy,
		remove: func(c *call, id string, revision int) error {
			return s.ops.DeleteNetwork(c.R.Context(), id, revision)
		}}
}

func (s handlers) listNetworks(c *call, q url.Values) (list []document, err error) {
	ctx := c.R.Context()
	err = s.ops.Store.Read(ctx, func(tx *store.Tx) error {
		found, err := store.List[store.Network](ctx, tx, storeFilter(q))
		if err != nil {
			return err
		}
		subnets, err := subnetsByNetwork(ctx, tx, store.Filter{})
		list = nil
		for _, n := range found {
			list = append(list, c.networkDocument(n, subnets[n.ID]))
		}
		return err
	})
	return list, err
}

// subnetsByNetwork returns the IDs of subnets by network.
func subnetsByNetwork(ctx context.Context, tx *store.Tx, f store.Filter) (map[string][]string, error) {
	subnets, err := store.List[store.Subnet](ctx, tx, f)
	all := map[string][]string{}
	for _, sub := range subnets {
		all[sub.Network] = append(all[sub.Network], sub.ID)
	}
	return all, err
}

func (s handlers) showNetwork(c *call, id string) (d document, err error) {
	ctx := c.R.Context()
	err = s.ops.Store.Read(ctx, func(tx *store.Tx) error {
		n, err := operations.GetIn[store.Network](ctx, tx, id)
		if err != nil {
			return err
		}
		subnets, err := subnetsByNetwork(ctx, tx, store.Filter{Networks: []string{id}})
		d = c.networkDocument(n, subnets[id])
		return err
	})
	return d, err
}

// networkDocument returns the document of a network.
func (c *call) networkDocument(n store.Network, subnets []string) document {
	view := common(n.Base)
	maps.Copy(view, map[string]any{"admin_state_up": n.AdminUp, "status": "ACTIVE", "shared": n.Shared || c.isShared(n.ID),
		"router:external": n.External, "is_default": n.IsDefault, "mtu": n.MTU, "subnets": notNil(subnets),
		"port_security_enabled": n.PortSecurity, "qos_policy_id": edge.OrNull(n.Policy),
		"availability_zone_hints": notNil(n.ZoneHints), "availability_zones": []string{}, "ipv4_address_scope": nil,
		"dns_domain":         n.DNSDomain,
		"ipv6_address_scope": nil, "l2_adjacency": true})
	if len(n.Segments) == 1 {
		maps.Copy(view, providerAttributes(n.Segments[0]))
	} else {
		list := []map[string]any{}
		for _, seg := range n.Segments {
			list = append(list, providerAttributes(seg))
		}
		view["segments"] = list
	}
	return document{view, c.target(n.Project, map[string]any{"shared": n.Shared || c.isShared(n.ID),
		"router:external": n.External, "network:project_id": n.Project, "network:tenant_id": n.Project})}
}

func providerAttributes(seg store.Segment) map[string]any {
	return map[string]any{"provider:network_type": seg.Type, "provider:physical_network": edge.OrNull(seg.PhysicalNetwork),
		"provider:segmentation_id": edge.OrNull(seg.ID)}
}

// readNetwork decodes the attributes of a network that creates and updates have in common.
func readNetwork(o *edge.Object, n *store.Network) {
	o.Text("name", &n.Name, 255)
	o.Text("description", &n.Description, 255)
	o.Flag("admin_state_up", &n.AdminUp)
	o.Flag("shared", &n.Shared)
	o.Flag("router:external", &n.External)
	o.Flag("is_default", &n.IsDefault)
	o.Flag("port_security_enabled", &n.PortSecurity)
	o.Number("mtu", &n.MTU, 0, 65535)
	o.Text("qos_policy_id", &n.Policy, 255)
	if o.Text("dns_domain", &n.DNSDomain, 255) {
		n.DNSDomain = strings.ToLower(n.DNSDomain)
	}
	o.Ignore("vlan_transparent", "vlan_qinq", "availability_zone_hints", "subnets")
}

// readSegments decodes the provider attributes of a new network: those of one segment, or a list.
func readSegments(o *edge.Object) (segments []store.Segment) {
	one := store.Segment{}
	given := readSegment(o, &one)
	var list []map[string]any
	if o.Has("segments") && given {
		o.Invalid("segments", "'segments' and the provider attributes exclude each other")
	}
	o.Decode("segments", &list, "a list of objects")
	for _, attributes := range list {
		seg := store.Segment{}
		seg.Type, _ = attributes["provider:network_type"].(string)
		seg.PhysicalNetwork, _ = attributes["provider:physical_network"].(string)
		id, _ := attributes["provider:segmentation_id"].(float64)
		seg.ID = int(id)
		segments = append(segments, seg)
	}
	if given {
		segments = append(segments, one)
	}
	return segments
}

// readSegment decodes the provider attributes of one segment.
func readSegment(o *edge.Object, seg *store.Segment) bool {
	o.Text("provider:network_type", &seg.Type, 32)
	o.Text("provider:physical_network", &seg.PhysicalNetwork, 64)
	o.Number("provider:segmentation_id", &seg.ID, 1, 1<<32-1)
	return *seg != store.Segment{}
}

func (s handlers) createNetwork(c *call, o *edge.Object) (document, error) {
	n := store.Network{AdminUp: true, PortSecurity: true}
	n.Project, _ = c.project(o)
	readNetwork(o, &n)
	n.Segments = readSegments(o)
	if err := o.Finish(); err != nil {
		return document{}, err
	}
	n, err := s.ops.CreateNetwork(c.R.Context(), n)
	return c.networkDocument(n, nil), err
}

func (s handlers) updateNetwork(c *call, id string, revision int, o *edge.Object) (document, error) {
	_, err := s.ops.UpdateNetwork(c.R.Context(), id, revision, func(n *store.Network) error {
		o := o.Copy()
		readNetwork(o, n)
		if len(n.Segments) == 1 { // a client may send what the network has
			seg := n.Segments[0]
			same := store.Segment{Type: seg.Type, PhysicalNetwork: seg.PhysicalNetwork, ID: seg.ID}
			got := same
			if readSegment(o, &got); got != same {
				o.Invalid("provider:network_type", "the segment of a network cannot change; create another network")
			}
		}
		return o.Finish()
	})
	if err != nil {
		return document{}, err
	}
	return s.showNetwork(c, id)
}
