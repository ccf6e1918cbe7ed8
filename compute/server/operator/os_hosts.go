package operator

import (
	"net/http"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

const noPower = "Berth cannot power hosts; `berth host disable` disables a host, `berth host down` declares it dead"

// osHostRoutes returns the paths of hosts in the Compute API, until 2.42.
func osHostRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-hosts": {
			http.MethodGet: request.Until(compute.NoHosts, request.Guarded(policies.ListOSHosts, s.listOSHosts)),
		},
		"/v2.1/os-hosts/{host}": {
			http.MethodGet: request.Until(compute.NoHosts, request.Guarded(policies.ShowOSHost, s.showOSHost)),
			http.MethodPut: request.Guarded(policies.UpdateOSHost, request.Refused(noPower)),
		},
	}
}

func (s *Handlers) listOSHosts(c *request.Call) error {
	list, err := s.hostStates(c.R.Context())
	if err != nil {
		return err
	}
	q := c.R.URL.Query()
	views := []compute.HostRef{}
	for _, h := range list {
		v := compute.HostRef{Name: h.Name, Service: "compute", Zone: h.zone}
		if (q.Get("zone") == "" || q.Get("zone") == v.Zone) && (q.Get("service") == "" || q.Get("service") == v.Service) {
			views = append(views, v)
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"hosts": views})
}

// showOSHost is GET /v2.1/os-hosts/{host} (until 2.42): its total, what is used, and what each project uses. Nova's
// rule is os_compute_api:os-hosts:show.
func (s *Handlers) showOSHost(c *request.Call) error {
	name := c.R.PathValue("host")
	list, err := s.hostStates(c.R.Context())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(h hostState) bool { return h.Name == name })
	if at < 0 {
		return fault.New(fault.NotFound, "Compute host %s could not be found.", edge.Clip(name))
	}
	amounts, err := s.amountsOf(c.R.Context(), list[at:at+1])
	if err != nil {
		return err
	}
	a := amounts[0]
	used := compute.HostResource{Project: "(used_max)", Host: name}
	rows := []compute.HostResource{
		{Project: "(total)", Host: name, CPU: a.VCPUs, RAM: a.RAM, Disk: a.Disk},
		{Project: "(used_now)", Host: name, CPU: a.VCPUsUsed, RAM: a.RAMUsed, Disk: a.DiskUsed},
	}
	var projects []compute.HostResource
	err = s.eachServer(c.R.Context(), store.ServerFilter{Host: name}, func(one lifecycle.Server) {
		at := slices.IndexFunc(projects, func(r compute.HostResource) bool { return r.Project == one.Project })
		if at < 0 {
			at = len(projects)
			projects = append(projects, compute.HostResource{Project: one.Project, Host: name})
		}
		f := one.Shown().Flavor
		for _, r := range []*compute.HostResource{&used, &projects[at]} {
			r.CPU, r.RAM, r.Disk = r.CPU+f.VCPUs, r.RAM+f.MemoryMB, r.Disk+f.DiskGB+f.Ephemeral
		}
	})
	if err != nil {
		return err
	}
	views := []any{}
	for _, r := range append(append(rows, used), projects...) {
		views = append(views, map[string]any{"resource": r})
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"host": views})
}
