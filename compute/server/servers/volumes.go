package servers

import (
	"net/http"

	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noVolumes = "Berth has no volumes"

// volumeRoutes returns the paths of the volumes of a server, of which there are none.
func volumeRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-volume_attachments": {
			http.MethodGet:  s.EmptyOfServer(policies.ListVolumes, "volumeAttachments"),
			http.MethodPost: s.RefusedOfServer(policies.AttachVolume, noVolumes),
		},
		"/v2.1/servers/{id}/os-volume_attachments/{volume}": {
			http.MethodGet:    s.RefusedOfServer(policies.ShowVolume, noVolumes),
			http.MethodPut:    s.RefusedOfServer(policies.UpdateVolume, noVolumes),
			http.MethodDelete: s.RefusedOfServer(policies.DetachVolume, noVolumes),
		},
	}
}
