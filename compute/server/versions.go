package server

import (
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/server/request"
)

// versionDoc describes one version of the API, in the format of OpenStack's discovery.
type versionDoc struct {
	ID         string           `json:"id"`
	Status     string           `json:"status"`
	Version    string           `json:"version"` // the newest microversion
	MinVersion string           `json:"min_version"`
	Updated    string           `json:"updated"` // the date of v2.1 in OpenStack
	Links      []compute.Link   `json:"links"`
	Media      []map[string]any `json:"media-types,omitempty"`
}

func describeVersion(c *request.Call) versionDoc {
	return versionDoc{ID: "v2.1", Status: "CURRENT", Version: compute.Max.String(), MinVersion: compute.Min.String(),
		Updated: "2013-07-23T11:33:21Z", Links: []compute.Link{{Rel: "self", HRef: c.BaseURL() + "/v2.1/"},
			{Rel: compute.BerthLink, HRef: c.BaseURL() + "/berth/v1/"}}}
}

// describeV2 describes the version without microversions, as OpenStack does.
func describeV2(c *request.Call) versionDoc {
	return versionDoc{ID: "v2.0", Status: "DEPRECATED", Updated: "2025-07-04T12:00:00Z",
		Links: []compute.Link{{Rel: "self", HRef: c.BaseURL() + "/v2/"}}}
}

// showVersions is GET /. It needs no token.
func showVersions(c *request.Call) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"versions": []versionDoc{describeV2(c), describeVersion(c)}})
}

// showV2 is GET /v2/. It needs no token.
func showV2(c *request.Call) error {
	v := describeV2(c)
	v.Media = []map[string]any{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2"}}
	return c.WriteJSON(http.StatusOK, map[string]any{"version": v})
}

// showVersion is GET /v2.1/. It needs no token.
func showVersion(c *request.Call) error {
	v := describeVersion(c)
	v.Media = []map[string]any{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}}
	return c.WriteJSON(http.StatusOK, map[string]any{"version": v})
}
