package hosts

import (
	"net/http"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

// downRoutes returns the paths of the hosts that are declared dead.
func downRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/down": {
			http.MethodPut:    request.Guarded(policies.SetHostDown, s.hostDown),
			http.MethodDelete: request.Guarded(policies.SetHostUp, s.hostUp),
		},
	}
}

// hostDown is PUT /berth/v1/hosts/{host}/down: an operator declares the host permanently dead.
func (s *Handlers) hostDown(c *request.Call) error {
	name := c.R.PathValue("host")
	if err := s.Conductor.HostDown(c.R.Context(), name); err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	return c.WriteStatus(http.StatusNoContent)
}

// hostUp is DELETE /berth/v1/hosts/{host}/down: an operator reverses hostDown.
func (s *Handlers) hostUp(c *request.Call) error {
	name := c.R.PathValue("host")
	if err := s.Conductor.HostUp(c.R.Context(), name); err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	return c.WriteStatus(http.StatusNoContent)
}

// forgetHost is DELETE /berth/v1/hosts/{host}: an operator removes a host that will never return. It responds with 409
// while the host may be alive, or has servers or allocations.
func (s *Handlers) forgetHost(c *request.Call) error {
	name := c.R.PathValue("host")
	removed, kept, err := s.Conductor.HostForget(c.R.Context(), name)
	if err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	return c.WriteJSON(http.StatusOK, host.Forgotten{Removed: request.Texts(removed), Kept: request.Texts(kept)})
}
