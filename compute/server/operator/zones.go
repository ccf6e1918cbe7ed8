package operator

import (
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

// zoneRoutes returns the paths of availability zones.
func zoneRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-availability-zone":        {http.MethodGet: request.Guarded(policies.ListZones, s.listZones)},
		"/v2.1/os-availability-zone/detail": {http.MethodGet: request.Guarded(policies.DetailZones, s.detailZones)},
	}
}

// listZones is GET /v2.1/os-availability-zone: the zones of hosts. Nova's rule is
// os_compute_api:os-availability-zone:list.
func (s *Handlers) listZones(c *request.Call) error {
	return s.writeZones(c, false)
}

// detailZones is GET /v2.1/os-availability-zone/detail: the zones with their hosts. Nova's rule is
// os_compute_api:os-availability-zone:detail.
func (s *Handlers) detailZones(c *request.Call) error {
	return s.writeZones(c, true)
}

// writeZones writes the zones that have hosts, by name; without any host, the default zone. A zone is available if a
// host of it is not disabled. The details have the zone of the services of this process too.
func (s *Handlers) writeZones(c *request.Call, detail bool) error {
	list, err := s.hostStates(c.R.Context())
	if err != nil {
		return err
	}
	zones := []compute.Zone{}
	at := func(name string) *compute.Zone {
		i := slices.IndexFunc(zones, func(z compute.Zone) bool { return z.Name == name })
		if i < 0 {
			i = len(zones)
			zones = append(zones, compute.Zone{Name: name})
			if detail {
				zones[i].Hosts = map[string]map[string]compute.ZoneService{}
			}
		}
		return &zones[i]
	}
	for _, h := range list {
		zone := at(h.zone)
		zone.State.Available = zone.State.Available || h.up && h.status == serviceEnabled
		if detail {
			zone.Hosts[h.Name] = map[string]compute.ZoneService{
				compute.Binary: {Active: h.status == serviceEnabled, Available: h.up, Updated: request.MicrosOrNull(h.Seen)}}
		}
	}
	if len(list) == 0 {
		at(s.DefaultZone)
	}
	if detail {
		internal := at(internalZone)
		internal.State.Available = true
		for _, own := range s.ownServices(c, len(list)) {
			if internal.Hosts[own.Host] == nil {
				internal.Hosts[own.Host] = map[string]compute.ZoneService{}
			}
			internal.Hosts[own.Host][own.Binary] = compute.ZoneService{Active: true, Available: true, Updated: own.Updated}
		}
	}
	slices.SortFunc(zones, func(a, b compute.Zone) int { return strings.Compare(a.Name, b.Name) })
	return c.WriteJSON(http.StatusOK, map[string]any{"availabilityZoneInfo": zones})
}
