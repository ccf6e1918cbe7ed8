package server

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

const noServiceRemoval = "Berth cannot delete a service alone; `berth host forget` removes a host"

// serviceRoutes returns the paths of compute services. Until 2.52 the body names the service, since 2.53 the path.
func (s *server) serviceRoutes() request.Routes {
	byName := func(handle func(*request.Call) error) request.Method {
		return request.Until(compute.ServiceUUID, request.Guarded(policies.UpdateService, handle))
	}
	return request.Routes{
		"/v2.1/os-services":                    {http.MethodGet: request.Guarded(policies.ListServices, s.listServices)},
		"/v2.1/os-services/force-down":         {http.MethodPut: request.Since(compute.ForceDown, byName(s.forceDown))},
		"/v2.1/os-services/enable":             {http.MethodPut: byName(s.enableService)},
		"/v2.1/os-services/disable":            {http.MethodPut: byName(s.disableService)},
		"/v2.1/os-services/disable-log-reason": {http.MethodPut: byName(s.disableServiceWithReason)},
		"/v2.1/os-services/{service}": {
			http.MethodPut:    request.Since(compute.ServiceUUID, request.Guarded(policies.UpdateService, s.updateService)),
			http.MethodDelete: request.Guarded(policies.DeleteService, request.Refused(noServiceRemoval)),
		},
	}
}

// listServices is GET /v2.1/os-services: the agents of hosts, as compute services.
func (s *server) listServices(c *request.Call) error {
	q := c.R.URL.Query()
	name, err := request.HostFilter(q)
	if err != nil {
		return err
	}
	hosts, dead, err := s.HostsAndDead(c.R.Context())
	if err != nil {
		return err
	}
	disabled, err := s.Store.DisabledHosts(c.R.Context())
	if err != nil {
		return err
	}
	list := []compute.ServiceDoc{}
	for i, h := range hosts {
		if name != "" && name != h.Name || q.Get("binary") != "" && q.Get("binary") != compute.Binary {
			continue
		}
		d := compute.ServiceDoc{ID: i + 1, Binary: compute.Binary, Host: h.Name, Zone: "nova", State: "up",
			Updated: request.MicrosOrNull(h.Seen)}
		down := slices.Contains(dead, h.Name)
		if down || !s.Works(h) {
			d.State = "down"
		}
		d.Status, d.Reason = serviceStatusOf(disabled, h.Name)
		if c.Has(compute.ForceDown) {
			d.ForcedDown = &down
		}
		if c.Has(compute.ServiceUUID) {
			d.ID = serviceID(h.Name)
		}
		list = append(list, d)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"services": list})
}

// forceDown is PUT /v2.1/os-services/force-down (2.11 to 2.52).
func (s *server) forceDown(c *request.Call) error {
	var body struct {
		Host, Binary string
		Down         *bool `json:"forced_down"`
	}
	if err := c.Read(request.MaxBody, &body); err != nil {
		return err
	}
	if body.Host == "" || body.Binary != compute.Binary || body.Down == nil {
		return fault.New(fault.Invalid, "the body must have host, binary (%s) and forced_down", compute.Binary)
	}
	if err := provider.CheckHostName(body.Host); err != nil {
		return err
	}
	if err := s.setDown(c, body.Host, *body.Down); err != nil {
		return err
	}
	doc := compute.ServiceDoc{Binary: compute.Binary, Host: body.Host, ForcedDown: body.Down}
	return c.WriteJSON(http.StatusOK, map[string]any{"service": doc})
}

// updateService is PUT /v2.1/os-services/{service} (2.53): status, disabled_reason and forced_down.
func (s *server) updateService(c *request.Call) error {
	var body struct {
		serviceStatus
		Down *bool `json:"forced_down"`
	}
	if err := c.Read(request.MaxBody, &body); err != nil {
		return err
	}
	if body.Status == nil && body.Down == nil {
		return fault.New(fault.Invalid, "the body must have status or forced_down")
	}
	if err := body.check(); err != nil {
		return err
	}
	hosts, err := s.Store.Hosts(c.R.Context())
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if serviceID(h.Name) == c.R.PathValue("service") {
			if body.Down != nil {
				if err := s.setDown(c, h.Name, *body.Down); err != nil {
					return err
				}
			}
			if err := s.changeStatus(c, h.Name, body.serviceStatus); err != nil {
				return err
			}
			return s.showService(c, h)
		}
	}
	return fault.New(fault.NotFound, "Service %s could not be found.", c.R.PathValue("service"))
}

// setDown declares the host of a service dead, or reverses that.
func (s *server) setDown(c *request.Call, name string, down bool) error {
	if _, err := s.Store.Host(c.R.Context(), name); err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	if down {
		return s.Conductor.HostDown(c.R.Context(), name)
	}
	return s.Conductor.HostUp(c.R.Context(), name)
}

// showService writes a service after a change (2.53).
func (s *server) showService(c *request.Call, h schedule.Host) error {
	dead, err := s.Store.Dead(c.R.Context())
	if err != nil {
		return err
	}
	disabled, err := s.Store.DisabledHosts(c.R.Context())
	if err != nil {
		return err
	}
	down := slices.Contains(dead, h.Name)
	doc := compute.ServiceDoc{ID: serviceID(h.Name), Binary: compute.Binary, Host: h.Name, Zone: "nova", State: "up",
		ForcedDown: &down, Updated: request.MicrosOrNull(h.Seen)}
	doc.Status, doc.Reason = serviceStatusOf(disabled, h.Name)
	if down || !s.Works(h) {
		doc.State = "down"
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"service": doc})
}

// serviceStatusOf returns whether the service of a host is enabled or disabled, and the reason; nil without one.
func serviceStatusOf(disabled map[string]string, host string) (status string, reason *string) {
	why, off := disabled[host]
	if !off {
		return serviceEnabled, nil
	}
	return serviceDisabled, request.OrNull(why)
}

// serviceID returns the UUID of the compute service of a host (2.53). It is derived from the host name, so it never
// changes.
func serviceID(host string) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte("nova-compute."+host)).String()
}
