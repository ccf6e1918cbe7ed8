package networking

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// networkProxyRoutes returns the paths of networks, which the Compute API has until 2.35. The network service has them.
func networkProxyRoutes(p proxies) request.Routes {
	until := func(rule string, handle func(*request.Call) error) request.Methods {
		return request.Methods{http.MethodGet: request.Until(compute.NoNetworkProxy, request.Guarded(rule, handle))}
	}
	return request.Routes{
		"/v2.1/os-networks":                  until(policies.ListNetworks, p.listNetworks(networkView)),
		"/v2.1/os-networks/{network}":        until(policies.ShowNetwork, p.showNetwork(networkView)),
		"/v2.1/os-tenant-networks":           until(policies.ListProjectNetworks, p.listNetworks(projectNetworkView)),
		"/v2.1/os-tenant-networks/{network}": until(policies.ShowProjectNetwork, p.showNetwork(projectNetworkView)),
	}
}

// networkAttributes are what the view of a network has beside its id and label; those of administrators follow. The
// network service has none of them as attributes of a network.
var (
	networkAttributes = []string{"broadcast", "cidr", "cidr_v6", "dns1", "dns2", "gateway", "gateway_v6", "netmask",
		"netmask_v6"}
	adminNetworkAttributes = []string{"bridge", "bridge_interface", "created_at", "deleted", "deleted_at",
		"dhcp_server",
		"dhcp_start", "enable_dhcp", "host", "injected", "mtu", "multi_host", "priority", "project_id", "rxtx_base",
		"share_address", "updated_at", "vlan", "vpn_private_address", "vpn_public_address", "vpn_public_port"}
)

// networkView returns the view of /os-networks.
func networkView(c *request.Call, n network.Network) map[string]any {
	v := map[string]any{"id": n.ID, "label": n.Name}
	for _, key := range networkAttributes {
		v[key] = nil
	}
	if c.Who.IsAdmin() {
		for _, key := range adminNetworkAttributes {
			v[key] = nil
		}
	}
	return v
}

// projectNetworkView returns the view of /os-tenant-networks, in which a missing cidr is a text.
func projectNetworkView(_ *request.Call, n network.Network) map[string]any {
	return map[string]any{"id": n.ID, "label": n.Name, "cidr": "None"}
}

// visibleNetworks returns the networks that the caller may use.
func (p proxies) visibleNetworks(c *request.Call) ([]network.Network, error) {
	if p.networks == nil {
		return nil, nil
	}
	all, err := p.networks.Networks(c.R.Context(), url.Values{})
	if err != nil || c.Who.IsAdmin() {
		return all, err
	}
	shared, err := p.networks.SharedWith(c.R.Context(), network.SharedNetwork, c.Who.Project)
	return slices.DeleteFunc(all, func(n network.Network) bool {
		return !n.Shared && n.Project != c.Who.Project && !slices.Contains(shared, n.ID)
	}), err
}

// listNetworks returns the handler of a list of networks.
func (p proxies) listNetworks(view func(*request.Call, network.Network) map[string]any) func(*request.Call) error {
	return func(c *request.Call) error {
		all, err := p.visibleNetworks(c)
		if err != nil {
			return err
		}
		views := []map[string]any{}
		for _, n := range all {
			views = append(views, view(c, n))
		}
		return c.WriteJSON(http.StatusOK, map[string]any{"networks": views})
	}
}

// showNetwork returns the handler of a network.
func (p proxies) showNetwork(view func(*request.Call, network.Network) map[string]any) func(*request.Call) error {
	return func(c *request.Call) error {
		all, err := p.visibleNetworks(c)
		if err != nil {
			return err
		}
		id := c.R.PathValue("network")
		at := slices.IndexFunc(all, func(n network.Network) bool { return n.ID == id })
		if at < 0 {
			return fault.New(fault.NotFound, "Network %s could not be found.", edge.Clip(id))
		}
		return c.WriteJSON(http.StatusOK, map[string]any{"network": view(c, all[at])})
	}
}
