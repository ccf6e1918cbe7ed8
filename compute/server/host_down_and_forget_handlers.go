package server

import (
	"net/http"

	"github.com/openberth/berth/api/host"
)

// hostDown is PUT /berth/v1/hosts/{host}/down: an operator declares the host permanently dead.
func (s *server) hostDown(c *call) error {
	name := c.R.PathValue("host")
	if err := s.Conductor.HostDown(c.R.Context(), name); err != nil {
		return s.unknownHost(c.R.Context(), name, err)
	}
	return c.writeStatus(http.StatusNoContent)
}

// hostUp is DELETE /berth/v1/hosts/{host}/down: an operator reverses hostDown.
func (s *server) hostUp(c *call) error {
	name := c.R.PathValue("host")
	if err := s.Conductor.HostUp(c.R.Context(), name); err != nil {
		return s.unknownHost(c.R.Context(), name, err)
	}
	return c.writeStatus(http.StatusNoContent)
}

// forgetHost is DELETE /berth/v1/hosts/{host}: an operator removes a host that will never return. It responds with 409
// while the host may be alive, or has servers or allocations.
func (s *server) forgetHost(c *call) error {
	name := c.R.PathValue("host")
	removed, kept, err := s.Conductor.HostForget(c.R.Context(), name)
	if err != nil {
		return s.unknownHost(c.R.Context(), name, err)
	}
	return c.writeJSON(http.StatusOK, host.Forgotten{Removed: texts(removed), Kept: texts(kept)})
}
