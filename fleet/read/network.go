package read

import (
	"context"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ports reads the ports of servers.
func (r *reader) ports(ctx context.Context) error {
	if r.Network == nil {
		return nil
	}
	query := url.Values{"fields": {"id", "device_id", "device_owner", "binding:host_id", "binding:profile",
		"binding:vnic_type", "resource_request"}}
	var list []network.Port
	err := again(ctx, func() (err error) {
		list, err = r.Network.Ports(ctx, query)
		return err
	})
	for _, p := range list {
		if p.Device == "" || len(p.DeviceOwner) < 8 || p.DeviceOwner[:8] != "compute:" {
			continue
		}
		out := fleet.Port{ID: p.ID, Server: p.Device, Host: p.Host}
		out.Device, _ = p.Profile["pci_slot"].(string)
		if p.Request != nil {
			for _, g := range p.Request.Groups {
				out.Requests = append(out.Requests, g.Resources)
			}
		}
		for _, id := range p.Allocation() {
			out.Providers = append(out.Providers, provider.ID(id))
		}
		slices.Sort(out.Providers)
		r.out.Ports = append(r.out.Ports, out)
	}
	return err
}

// agents reads the agents of the network service. A service without agents has no such list.
func (r *reader) agents(ctx context.Context) error {
	if r.Network == nil {
		return nil
	}
	list, err := r.Network.Agents(ctx, url.Values{})
	if status := rest.StatusOf(err); fault.Is(err, fault.NotFound) && status != nil {
		return nil
	}
	for _, a := range list {
		r.out.Agents = append(r.out.Agents, fleet.NetworkAgent{Host: a.Host, Type: a.Type})
	}
	return err
}

// PortRequests returns what the ports of a server request.
func PortRequests(ctx context.Context, client *network.Client, server string) (all []fleet.PortRequest, err error) {
	list, err := client.Ports(ctx, url.Values{"device_id": {server}})
	for _, p := range list {
		out := fleet.PortRequest{ID: p.ID, VNICType: p.VNIC, NUMAPolicy: p.NUMAAffinity, Trusted: p.Trusted()}
		if p.Request != nil {
			out.SameSubtree = p.Request.SameSubtree
			for _, g := range p.Request.Groups {
				group := fleet.PortGroup{ID: g.ID, Resources: g.Resources}
				for _, element := range g.Required {
					group.Required = append(group.Required, fleet.RequiredTraits(element))
				}
				out.Groups = append(out.Groups, group)
			}
		}
		all = append(all, out)
	}
	return all, err
}

// consumer returns the id of a consumer.
func consumer(id string) resource.ConsumerID { return resource.ConsumerID(id) }
