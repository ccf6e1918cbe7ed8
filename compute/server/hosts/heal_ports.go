package hosts

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/compute/server/request"
)

// portRoutes returns the paths of the ports to heal.
func portRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/ports/heal": {http.MethodPost: request.Guarded(policies.HealPorts, s.healPorts)},
	}
}

// healPorts is POST /berth/v1/ports/heal: it shows or writes what bound ports and the allocations of their servers
// lack.
func (s *Handlers) healPorts(c *request.Call) error {
	var body host.HealPorts
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	ctx := context.WithoutCancel(c.R.Context()) // what is begun is completed or undone
	found, err := s.Ports.HealPorts(ctx, body.Host, body.Servers, body.Apply)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, writeHealedPorts(found))
}

func writeHealedPorts(found []ports.Healing) host.HealedPorts {
	out := host.HealedPorts{Servers: []host.HealedServer{}}
	for _, f := range found {
		one := host.HealedServer{Server: f.Server, Name: f.Name, Host: f.Host, State: string(f.State), Reason: f.Reason,
			Ports: []host.HealedPort{}, Adds: f.Adds.ByName(), Removes: f.Removes.ByName()}
		for _, p := range f.Ports {
			port := host.HealedPort{Port: p.ID, Bind: p.Bind, Device: p.Device, Reason: p.Reason}
			for group, at := range p.Groups {
				if port.Groups == nil {
					port.Groups = map[string]string{}
				}
				port.Groups[group] = string(at)
			}
			one.Ports = append(one.Ports, port)
		}
		out.Servers = append(out.Servers, one)
	}
	return out
}
