package resources

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// networks returns the collection of networks.
func (s handlers) networks() request.Collection {
	return request.Collection{One: "network", Many: "networks", Missing: "NetworkNotFound",
		Attributes: request.With("admin_state_up", "status", "shared", "router:external", "mtu", "subnets",
			"provider:network_type",
			"provider:physical_network", "provider:segmentation_id", "qos_policy_id", "is_default",
			"port_security_enabled",
			"dns_domain"),
		List: s.listNetworks, Show: s.showNetwork, Draft: request.DraftProject, Create: s.createNetwork,
		Update: s.updateNetwork, Check: s.checkPolicy,
		Remove: func(c *request.Call, id string, revision int) error {
			return s.Ops.DeleteNetwork(c.R.Context(), id, revision)
		}}
}

func (s handlers) listNetworks(c *request.Call, q url.Values) (list []request.Document, err error) {
	ctx := c.R.Context()
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		found, err := store.List[store.Network](ctx, tx, request.StoreFilter(q))
		if err != nil {
			return err
		}
		subnets, err := subnetsByNetwork(ctx, tx, store.Filter{})
		list = nil
		for _, n := range found {
			list = append(list, networkDocument(c, n, subnets[n.ID]))
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

// networksByID returns networks; without ids it returns none.
func networksByID(ctx context.Context, tx *store.Tx, ids map[string]bool) (map[string]store.Network, error) {
	all := map[string]store.Network{}
	if len(ids) == 0 {
		return all, nil
	}
	list, err := store.List[store.Network](ctx, tx, store.Filter{IDs: slices.Sorted(maps.Keys(ids))})
	for _, n := range list {
		all[n.ID] = n
	}
	return all, err
}

func (s handlers) showNetwork(c *request.Call, id string) (d request.Document, err error) {
	ctx := c.R.Context()
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		n, err := operations.GetIn[store.Network](ctx, tx, id)
		if err != nil {
			return err
		}
		subnets, err := subnetsByNetwork(ctx, tx, store.Filter{Networks: []string{id}})
		d = networkDocument(c, n, subnets[id])
		return err
	})
	return d, err
}

// networkDocument returns the document of a network.
func networkDocument(c *request.Call, n store.Network, subnets []string) request.Document {
	view := request.Common(n.Base)
	maps.Copy(view, map[string]any{"admin_state_up": n.AdminUp, "status": "ACTIVE", "shared": n.Shared ||
		c.IsShared(n.ID),
		"router:external": n.External, "is_default": n.IsDefault, "mtu": n.MTU, "subnets": request.NotNil(subnets),
		"port_security_enabled": n.PortSecurity, "qos_policy_id": edge.OrNull(n.Policy),
		"availability_zone_hints": request.NotNil(n.ZoneHints), "availability_zones": []string{},
		"ipv4_address_scope": nil,
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
	return request.Document{View: view, Target: c.Target(n.Project,
		map[string]any{"shared": n.Shared || c.IsShared(n.ID),
			"router:external": n.External, "network:project_id": n.Project, "network:tenant_id": n.Project})}
}

func providerAttributes(seg store.Segment) map[string]any {
	return map[string]any{"provider:network_type": seg.Type,
		"provider:physical_network": edge.OrNull(seg.PhysicalNetwork),
		"provider:segmentation_id":  edge.OrNull(seg.ID)}
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

// draftInNetwork is the draft of an object of a network.
func (s handlers) draftInNetwork(c *request.Call, o *edge.Object) (map[string]any, error) {
	o = o.Copy()
	project, err := c.Project(o)
	if err != nil {
		return nil, err
	}
	id, owner := "", ""
	if o.Text("network_id", &id, 255); id == "" {
		o.Invalid("network_id", "it is required")
		return nil, o.Err()
	}
	o.Text("device_owner", &owner, 255)
	n, err := operations.Get[store.Network](c.R.Context(), s.Ops, id)
	if err != nil {
		return nil, err
	}
	d := networkDocument(c, n, nil)
	if err := s.networks().Named().CheckVisible(c, d, id); err != nil {
		return nil, err
	}
	c.Network = n
	return c.Target(project, map[string]any{"shared": d.Target["shared"], "owner_kind": request.OwnerKind(owner),
		"network:project_id": d.Target["project_id"], "network:tenant_id": d.Target["project_id"]}), nil
}

func (s handlers) createNetwork(c *request.Call, o *edge.Object) (request.Document, error) {
	n := store.Network{AdminUp: true, PortSecurity: true}
	n.Project, _ = c.Project(o)
	readNetwork(o, &n)
	n.Segments = readSegments(o)
	if err := o.Finish(); err != nil {
		return request.Document{}, err
	}
	n, err := s.Ops.CreateNetwork(c.R.Context(), n)
	return networkDocument(c, n, nil), err
}

func (s handlers) updateNetwork(c *request.Call, id string, revision int, o *edge.Object) (request.Document, error) {
	_, err := s.Ops.UpdateNetwork(c.R.Context(), id, revision, func(n *store.Network) error {
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
		return request.Document{}, err
	}
	return s.showNetwork(c, id)
}
