package networking

import (
	"net/http"
	"net/netip"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// addressRoutes returns the paths of the addresses of a server.
func addressRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/ips":           {http.MethodGet: s.OfServer(policies.ListAddresses, listAddresses)},
		"/v2.1/servers/{id}/ips/{network}": {http.MethodGet: s.OfServer(policies.ShowAddresses, showAddresses)},
	}
}

// listAddresses is GET /v2.1/servers/{id}/ips: the addresses of a server by the names of their networks.
func listAddresses(c *request.Call, found lifecycle.Server) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"addresses": plainAddresses(found)})
}

// showAddresses is GET /v2.1/servers/{id}/ips/{network}: those of one network. Nova's rule is os_compute_api:ips:show.
func showAddresses(c *request.Call, found lifecycle.Server) error {
	name := c.R.PathValue("network")
	list, known := plainAddresses(found)[name]
	if !known {
		return fault.New(fault.NotFound, "Instance is not a member of specified network")
	}
	return c.WriteJSON(http.StatusOK, map[string]any{name: list})
}

// plainAddresses returns the addresses of a server without their types and MAC addresses.
func plainAddresses(s lifecycle.Server) map[string][]compute.Address {
	all := Addresses(s)
	for _, list := range all {
		for i := range list {
			list[i].AddressDetails = nil
		}
	}
	return all
}

// Addresses returns the addresses of a server by the name of the network.
func Addresses(s lifecycle.Server) map[string][]compute.Address {
	all := map[string][]compute.Address{}
	for _, p := range s.Ports {
		for _, ip := range p.FixedIPs {
			one := compute.Address{Address: ip.Address, Version: 4,
				AddressDetails: &compute.AddressDetails{Type: "fixed", MAC: p.MAC}}
			if at, err := netip.ParseAddr(ip.Address); err == nil && at.Is6() {
				one.Version = 6
			}
			all[p.NetworkName] = append(all[p.NetworkName], one)
		}
	}
	return all
}
