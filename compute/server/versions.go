package server

import (
	"net/http"

	"github.com/openberth/berth/api/compute"
)

// versionDoc tells of one version of the API, as OpenStack's discovery reads it.
type versionDoc struct {
	ID         string           `json:"id"`
	Status     string           `json:"status"`
	Version    string           `json:"version"` // the newest microversion
	MinVersion string           `json:"min_version"`
	Updated    string           `json:"updated"` // when v2.1 came to be, as OpenStack has it
	Links      []compute.Link   `json:"links"`
	Media      []map[string]any `json:"media-types,omitempty"`
}

func describeVersion(c *call) versionDoc {
	return versionDoc{ID: "v2.1", Status: "CURRENT", Version: compute.Max.String(), MinVersion: compute.Min.String(),
		Updated: "2013-07-23T11:33:21Z", Links: []compute.Link{{Rel: "self", HRef: c.base() + "/v2.1/"}}}
}

// showVersions is GET /, the only page besides /v2.1/ that needs no token.
func showVersions(c *call) error {
	return c.writeJSON(http.StatusOK, map[string]any{"versions": []versionDoc{describeVersion(c)}})
}

// showVersion is GET /v2.1/.
func showVersion(c *call) error {
	v := describeVersion(c)
	v.Media = []map[string]any{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}}
	return c.writeJSON(http.StatusOK, map[string]any{"version": v})
}

// base is the address of the service as the client wrote it.
func (c *call) base() string {
	if c.r.TLS != nil {
		return "https://" + c.r.Host
	}
	return "http://" + c.r.Host
}

// links are the two addresses of a resource: with the version and, as a bookmark, without. They have the project id if the request had it.
func (c *call) links(collection, id string) []compute.Link {
	return []compute.Link{
		{Rel: "self", HRef: c.base() + "/v2.1" + c.prefix() + "/" + collection + "/" + id},
		{Rel: "bookmark", HRef: c.base() + c.prefix() + "/" + collection + "/" + id},
	}
}

func (c *call) prefix() string {
	if c.project == "" {
		return ""
	}
	return "/" + c.project
}

// more is the link to the next page, which there may be when this one is full.
func (c *call) nextLinks(limit, length int, lastID string) []compute.Link {
	if limit == 0 || length < limit {
		return nil
	}
	q := c.r.URL.Query()
	q.Set("marker", lastID)
	path := c.r.URL.Path[len("/v2.1"):]
	return []compute.Link{{Rel: "next", HRef: c.base() + "/v2.1" + c.prefix() + path + "?" + q.Encode()}}
}
