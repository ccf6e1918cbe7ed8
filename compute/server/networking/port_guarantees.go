package networking

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// guarantees has the handler of the network service.
type guarantees struct{ *Handlers }

// guaranteeRoutes returns the path by which the network service counts what it gives to ports of servers.
func guaranteeRoutes(h *Handlers) request.Routes {
	s := guarantees{h}
	return request.Routes{
		"/berth/v1/servers/{id}/guarantees/{change}": {
			http.MethodPut: request.Guarded(policies.CountGuarantees, s.putGuarantees)},
	}
}

// putGuarantees reserves what ports of a server get by a change of policies, or records what they have after it. The
// status is 204; 409 if a quota of the project does not permit it; 404 without the server.
func (s guarantees) putGuarantees(c *request.Call) error {
	id, change := c.R.PathValue("id"), c.R.PathValue("change")
	var body map[string]json.RawMessage
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	o := c.NewObject("the body", body)
	var more map[string]int
	var reported map[string]compute.PortGuarantee
	reserves := o.Decode("more", &more, "amounts by resource class")
	reports := o.Decode("ports", &reported, "guarantees by the id of the port")
	if reserves == reports {
		o.Invalid("more", "give either more or ports")
	}
	if _, err := uuid.Parse(change); err != nil {
		o.Invalid("the change in the path", "it is not a UUID")
	}
	added := readAmounts(o, "more", more)
	ports := map[string]lifecycle.Guarantee{}
	for port, g := range reported {
		ports[port] = lifecycle.Guarantee{Revision: g.Revision, Amounts: readAmounts(o, "ports", g.Amounts)}
	}
	if err := o.Finish(); err != nil {
		return err
	}
	var err error
	if reserves {
		_, err = s.Store.ChangeWithinQuota(c.R.Context(), id, func(found lifecycle.Server) lifecycle.Server {
			return found.ReserveGuarantees(change, added)
		})
	} else {
		_, err = s.Store.Change(c.R.Context(), id, func(found lifecycle.Server) lifecycle.Server {
			return found.ReportGuarantees(change, ports)
		})
	}
	if quota.IsExceeded(err) {
		return fault.Wrap(fault.Conflict, err)
	}
	return c.Done(http.StatusNoContent, err)
}

// readAmounts checks amounts by resource class.
func readAmounts(o *edge.Object, key string, amounts map[string]int) resource.Amounts {
	all := resource.Amounts{}
	for class, n := range amounts {
		if !quota.IsClass(class) || n < 0 || n > quota.Most {
			o.Invalid(key, "%q: %d is not an amount of a resource class", edge.Clip(class), n)
		}
		all[resource.Class(class)] = n
	}
	return all
}

// CountPorts counts what the ports of a shelved server request now: their policies may have changed while they were not
// bound. If the network service does not answer, they are counted when a host is claimed.
func CountPorts(s *Handlers, c *request.Call, found lifecycle.Server) error {
	if s.Networks == nil || len(found.Ports) == 0 || found.State != lifecycle.Shelved {
		return nil
	}
	ports, err := s.Networks.Ports(c.R.Context(), url.Values{"device_id": {found.ID}})
	if err != nil {
		s.Log.Info("ports of a shelved server not read", "server", found.ID, "error", err)
		return nil
	}
	now := map[string]lifecycle.Guarantee{}
	for _, p := range ports {
		now[p.ID] = lifecycle.Guarantee{Revision: p.Revision, Amounts: lifecycle.GroupAmounts(groupsOfPort(p))}
	}
	_, err = s.Store.Change(c.R.Context(), found.ID, func(found lifecycle.Server) lifecycle.Server {
		return found.ReportGuarantees("", now)
	})
	return err
}

// groupsOfPort returns the groups that a port requests.
func groupsOfPort(p network.Port) (groups []resource.Group) {
	if p.Request == nil {
		return nil
	}
	for _, g := range p.Request.Groups {
		groups = append(groups, resource.Group{Resources: g.Resources})
	}
	return groups
}
