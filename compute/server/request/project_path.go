package request

import (
	"net/url"
	"strings"
)

// RemoveProject changes /v2.1/{project_id}/servers/… to /v2.1/servers/…: until 2.18 the API has the project in its
// paths. resources are the names of resources.
func (c *Call) RemoveProject(resources map[string]bool) {
	rest, ok := strings.CutPrefix(c.R.URL.EscapedPath(), "/v2.1/")
	project, tail, two := strings.Cut(rest, "/")
	resource, _, _ := strings.Cut(tail, "/")
	if !ok || !two || resources[project] || !resources[resource] {
		return
	}
	short, err := c.R.URL.Parse("/v2.1/" + tail)
	if err != nil {
		return
	}
	if project, err = url.PathUnescape(project); err != nil {
		return
	}
	short.RawQuery = c.R.URL.RawQuery
	c.R = c.R.Clone(c.R.Context())
	c.R.URL, c.Project = short, project
}

// Resources returns the names of resources in routes of the Compute API: the segments after /v2.1/.
func Resources(routes Routes) map[string]bool {
	names := map[string]bool{}
	for path := range routes {
		if rest, ok := strings.CutPrefix(path, "/v2.1/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			names[name] = true
		}
	}
	return names
}
