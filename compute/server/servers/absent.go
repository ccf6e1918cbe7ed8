package servers

import (
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noShares = "Berth has no shares; mount them in the guest"

// shareRoutes returns the paths of the shares of a server (2.97), of which there are none.
func shareRoutes(s *Handlers) request.Routes {
	refused := func(rule string) request.Method {
		return request.Since(compute.Shares, s.RefusedOfServer(rule, noShares))
	}
	return request.Routes{
		"/v2.1/servers/{id}/shares": {
			http.MethodGet:  request.Since(compute.Shares, s.EmptyOfServer(policies.ListShares, "shares")),
			http.MethodPost: refused(policies.AttachShare),
		},
		"/v2.1/servers/{id}/shares/{share}": {
			http.MethodGet:    refused(policies.ShowShare),
			http.MethodDelete: refused(policies.DetachShare),
		},
	}
}

// passwordRoutes returns the path of the password that a guest has chosen and encrypted for its user. Guests have no
// way to send one, so it is always empty.
func passwordRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-server-password": {
			http.MethodGet: s.OfServer(policies.ShowServerPassword, func(c *request.Call, _ lifecycle.Server) error {
				return c.WriteJSON(http.StatusOK, map[string]string{"password": ""})
			}),
			http.MethodDelete: s.OfServer(policies.ClearServerPassword,
				func(c *request.Call, _ lifecycle.Server) error {
					return c.WriteStatus(http.StatusNoContent)
				}),
		},
	}
}

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
