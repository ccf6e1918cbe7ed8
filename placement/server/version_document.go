package server

import (
	"net/http"
	"time"

	api "github.com/openberth/berth/api/placement"
)

// versions handles GET /: it sends the version document. It needs no authentication.
func (c *call) versions() error {
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, object{"versions": []object{{
		"id": "v" + api.Oldest.String(), "status": "CURRENT",
		"min_version": api.Oldest.String(), "max_version": api.Latest.String(),
		"links": []api.Link{{Rel: "self", Href: ""}},
	}}})
}
