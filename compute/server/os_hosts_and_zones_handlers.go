package server

import (
	"net/http"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// listOSHosts is GET /v2.1/os-hosts (until 2.42). Nova's rule is os_compute_api:os-hosts:list.
func (s *server) listOSHosts(c *call) error {
	if c.version.Has(compute.NoHosts) {
		return unknownPath(c)
	}
	list, err := s.hypervisors(c.R.Context())
	if err != nil {
		return err
	}
	q := c.R.URL.Query()
	views := []compute.HostRef{}
	for _, h := range list {
		v := compute.HostRef{Name: h.Name, Service: "compute", Zone: onlyZone}
		if (q.Get("zone") == "" || q.Get("zone") == v.Zone) && (q.Get("service") == "" || q.Get("service") == v.Service) {
			views = append(views, v)
		}
	}
	return c.writeJSON(http.StatusOK, map[string]any{"hosts": views})
}

// showOSHost is GET /v2.1/os-hosts/{host} (until 2.42): its total, what is used, and what each project uses. Nova's
// rule is os_compute_api:os-hosts:show.
func (s *server) showOSHost(c *call) error {
	if c.version.Has(compute.NoHosts) {
		return unknownPath(c)
	}
	name := c.R.PathValue("host")
	list, err := s.hypervisors(c.R.Context())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(h hypervisor) bool { return h.Name == name })
	if at < 0 {
		return fault.New(fault.NotFound, "Compute host %s could not be found.", clip(name))
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
	return c.writeJSON(http.StatusOK, map[string]any{"host": views})
}

// listZones is GET /v2.1/os-availability-zone: the one zone. Nova's rule is os_compute_api:os-availability-zone:list.
func (s *server) listZones(c *call) error {
	return s.writeZones(c, false)
}

// detailZones is GET /v2.1/os-availability-zone/detail: the zone with its hosts. Nova's rule is
// os_compute_api:os-availability-zone:detail.
func (s *server) detailZones(c *call) error {
	return s.writeZones(c, true)
}

// writeZones writes the one zone. It is available if a host is up and not disabled.
func (s *server) writeZones(c *call, detail bool) error {
	list, err := s.hypervisors(c.R.Context())
	if err != nil {
		return err
	}
	zone := compute.Zone{Name: onlyZone}
	if detail {
		zone.Hosts = map[string]map[string]compute.ZoneService{}
	}
	for _, h := range list {
		zone.State.Available = zone.State.Available || h.up && h.status == serviceEnabled
		if detail {
			zone.Hosts[h.Name] = map[string]compute.ZoneService{
				compute.Binary: {Active: h.status == serviceEnabled, Available: h.up, Updated: micros(h.Seen)}}
		}
	}
	return c.writeJSON(http.StatusOK, map[string]any{"availabilityZoneInfo": []compute.Zone{zone}})
}
