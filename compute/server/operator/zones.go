package operator

import (
	"net/http"

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

// listZones is GET /v2.1/os-availability-zone: the one zone. Nova's rule is os_compute_api:os-availability-zone:list.
func (s *Handlers) listZones(c *request.Call) error {
	return s.writeZones(c, false)
}

// detailZones is GET /v2.1/os-availability-zone/detail: the zone with its hosts. Nova's rule is
// os_compute_api:os-availability-zone:detail.
func (s *Handlers) detailZones(c *request.Call) error {
	return s.writeZones(c, true)
}

// writeZones writes the one zone. It is available if a host is up and not disabled.
func (s *Handlers) writeZones(c *request.Call, detail bool) error {
	list, err := s.hostStates(c.R.Context())
	if err != nil {
		return err
	}
	zone := compute.Zone{Name: request.OnlyZone}
	if detail {
		zone.Hosts = map[string]map[string]compute.ZoneService{}
	}
	for _, h := range list {
		zone.State.Available = zone.State.Available || h.up && h.status == serviceEnabled
		if detail {
			zone.Hosts[h.Name] = map[string]compute.ZoneService{
				compute.Binary: {Active: h.status == serviceEnabled, Available: h.up, Updated: request.MicrosOrNull(h.Seen)}}
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"availabilityZoneInfo": []compute.Zone{zone}})
}
