package server

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

const noNetwork = "compute has no network service; set [neutron] endpoint_override to use one"

// interfaceRoutes returns the paths of the ports of a server.
func (s *server) interfaceRoutes() request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-interface": {
			http.MethodGet:  s.OfServer(policies.ListInterfaces, s.listInterfaces),
			http.MethodPost: s.OfServer(policies.AttachInterface, s.attachInterface),
		},
		"/v2.1/servers/{id}/os-interface/{port}": {
			http.MethodGet:    s.OfServer(policies.ShowInterface, s.showInterface),
			http.MethodDelete: s.OfServer(policies.DetachInterface, s.detachInterface),
		},
	}
}

// listInterfaces is GET /v2.1/servers/{id}/os-interface: the ports of a server as the network service has them.
func (s *server) listInterfaces(c *request.Call, found lifecycle.Server) error {
	list, err := s.interfaces(c, found)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"interfaceAttachments": list})
}

// showInterface is GET /v2.1/servers/{id}/os-interface/{port}.
func (s *server) showInterface(c *request.Call, found lifecycle.Server) error {
	list, err := s.interfaces(c, found)
	if err != nil {
		return err
	}
	port := c.R.PathValue("port")
	at := slices.IndexFunc(list, func(i compute.Interface) bool { return i.Port == port })
	if at < 0 {
		return fault.New(fault.NotFound, "Instance %s does not have a port with id %s", found.ID, port)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"interfaceAttachment": list[at]})
}

// interfaces returns the ports of a server, in the order of the server.
func (s *server) interfaces(c *request.Call, of lifecycle.Server) ([]compute.Interface, error) {
	list := []compute.Interface{}
	if s.Networks == nil || len(of.Ports) == 0 {
		return list, nil
	}
	ports, err := s.Networks.Ports(c.R.Context(), url.Values{"device_id": {of.ID}})
	if err != nil {
		return nil, err
	}
	for _, own := range of.Ports {
		at := slices.IndexFunc(ports, func(p network.Port) bool { return p.ID == own.ID })
		if at < 0 {
			continue // deleted in the network service
		}
		p := ports[at]
		one := compute.Interface{Port: p.ID, Network: p.Network, MAC: p.MAC, PortState: p.Status,
			FixedIPs: []compute.InterfaceAddress{}}
		for _, ip := range p.FixedIPs {
			one.FixedIPs = append(one.FixedIPs, compute.InterfaceAddress(ip))
		}
		list = append(list, one)
	}
	return list, nil
}
