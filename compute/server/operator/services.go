package operator

import (
	"net/http"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// serviceRoutes returns the paths of compute services. Until 2.52 the body names the service, since 2.53 the path.
func serviceRoutes(s *Handlers) request.Routes {
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
			http.MethodDelete: request.Guarded(policies.DeleteService, s.deleteService),
		},
	}
}

// ownServices returns the scheduler and the conductor, which are parts of this process. before is how many services the
// list has before them.
func (s *Handlers) ownServices(c *request.Call, before int) (list []compute.ServiceDoc) {
	up := false // not forced down
	for i, binary := range []string{compute.Conductor, compute.Scheduler} {
		d := compute.ServiceDoc{ID: before + i + 1, Binary: binary, Host: s.Process, Zone: internalZone, State: "up",
			Status: serviceEnabled, Updated: request.MicrosOrNull(s.Now())}
		if c.Has(compute.ForceDown) {
			d.ForcedDown = &up
		}
		if c.Has(compute.ServiceUUID) {
			d.ID = serviceID(binary, s.Process)
		}
		list = append(list, d)
	}
	return list
}

// internalZone is OpenStack's zone of services other than those of hosts.
const internalZone = "internal"

// listServices is GET /v2.1/os-services: the agents of hosts, as compute services, and the services of this process.
func (s *Handlers) listServices(c *request.Call) error {
	q := c.R.URL.Query()
	name, err := request.HostFilter(q)
	if err != nil {
		return err
	}
	hosts, err := s.hostStates(c.R.Context())
	if err != nil {
		return err
	}
	list := []compute.ServiceDoc{}
	for _, h := range hosts {
		list = append(list, serviceView(c, h))
	}
	list = slices.DeleteFunc(append(list, s.ownServices(c, len(hosts))...), func(d compute.ServiceDoc) bool {
		return name != "" && name != d.Host || q.Get("binary") != "" && q.Get("binary") != d.Binary
	})
	return c.WriteJSON(http.StatusOK, map[string]any{"services": list})
}

// serviceView returns the view of the service of a host. Until 2.52 its id is its place in the list.
func serviceView(c *request.Call, h hostState) compute.ServiceDoc {
	d := compute.ServiceDoc{ID: h.position + 1, Binary: compute.Binary, Host: h.Name, Zone: h.zone, State: "up",
		Status: h.status, Reason: h.reason, Updated: request.MicrosOrNull(h.Seen)}
	if !h.up {
		d.State = "down"
	}
	if c.Has(compute.ForceDown) {
		d.ForcedDown = &h.dead
	}
	if c.Has(compute.ServiceUUID) {
		d.ID = serviceID(compute.Binary, h.Name)
	}
	return d
}

// onlyHosts returns the fault for a change of a service that is not the one of a host.
func onlyHosts(binary string) error {
	return fault.New(fault.Invalid, "Updating a %s service is not supported. Only nova-compute services can be updated "+
		"and deleted.", edge.Clip(binary))
}

// findService returns the host of the service of the path (2.53).
func (s *Handlers) findService(c *request.Call) (hostState, error) {
	hosts, err := s.hostStates(c.R.Context())
	if err != nil {
		return hostState{}, err
	}
	id := c.R.PathValue("service")
	for _, own := range s.ownServices(c, len(hosts)) {
		if own.ID == id {
			return hostState{}, onlyHosts(own.Binary)
		}
	}
	at := slices.IndexFunc(hosts, func(h hostState) bool { return serviceID(compute.Binary, h.Name) == id })
	if at < 0 {
		return hostState{}, fault.New(fault.NotFound, "Service %s could not be found.", id)
	}
	return hosts[at], nil
}

func (s *Handlers) forceDown(c *request.Call) error {
	var body struct {
		Host, Binary string
		Down         *bool `json:"forced_down"`
	}
	if err := c.ReadStrict(&body); err != nil {
		return err
	}
	if body.Host == "" || body.Binary == "" || body.Down == nil {
		return fault.New(fault.Invalid, "the body must have host, binary (%s) and forced_down", compute.Binary)
	}
	if body.Binary != compute.Binary {
		return onlyHosts(body.Binary)
	}
	if err := provider.CheckHostName(body.Host); err != nil {
		return err
	}
	if err := s.setDown(c, body.Host, *body.Down); err != nil {
		return err
	}
	doc := compute.ServiceDown{Binary: compute.Binary, Host: body.Host, ForcedDown: *body.Down}
	return c.WriteJSON(http.StatusOK, map[string]any{"service": doc})
}

// updateService is PUT /v2.1/os-services/{service} (2.53): status, disabled_reason and forced_down.
func (s *Handlers) updateService(c *request.Call) error {
	var body struct {
		serviceStatus
		Down *bool `json:"forced_down"`
	}
	if err := c.ReadStrict(&body); err != nil {
		return err
	}
	if body.Status == nil && body.Down == nil {
		return fault.New(fault.Invalid, "the body must have status or forced_down")
	}
	if err := body.check(); err != nil {
		return err
	}
	h, err := s.findService(c)
	if err != nil {
		return err
	}
	if body.Down != nil {
		if err := s.setDown(c, h.Name, *body.Down); err != nil {
			return err
		}
	}
	if err := s.changeStatus(c, h.Name, body.serviceStatus); err != nil {
		return err
	}
	if h, err = s.findService(c); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"service": serviceView(c, h)})
}

// deleteService is DELETE /v2.1/os-services/{service}: an operator removes the host of a service that will never
// return, with its providers. It responds with 409 while the host may be alive, or has servers or allocations.
func (s *Handlers) deleteService(c *request.Call) error {
	if !c.Has(compute.ServiceUUID) {
		return fault.New(fault.Invalid, "the numbers of services change when hosts are added; delete the service by its "+
			"UUID, which it has since microversion %s", compute.ServiceUUID)
	}
	h, err := s.findService(c)
	if err != nil {
		return err
	}
	_, _, err = s.Conductor.HostForget(c.R.Context(), h.Name)
	return c.Done(http.StatusNoContent, err)
}

// setDown declares the host of a service dead, or reverses that.
func (s *Handlers) setDown(c *request.Call, name string, down bool) error {
	if _, err := s.Store.Host(c.R.Context(), name); err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	if down {
		return s.Conductor.HostDown(c.R.Context(), name)
	}
	return s.Conductor.HostUp(c.R.Context(), name)
}
