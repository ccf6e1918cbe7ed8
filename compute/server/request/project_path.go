package request

import (
	"net/url"
	"slices"
	"strings"
)

// RemoveProject changes /v2.1/{project_id}/servers/… to /v2.1/servers/…: until 2.18 the API has the project in its
// paths.
func (c *Call) RemoveProject() {
	rest, ok := strings.CutPrefix(c.R.URL.EscapedPath(), "/v2.1/")
	project, tail, two := strings.Cut(rest, "/")
	resource, _, _ := strings.Cut(tail, "/")
	if !ok || !two || isResource(project) || !isResource(resource) {
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

func isResource(segment string) bool {
	return slices.Contains([]string{"servers", "flavors", "os-migrations", "os-services", "os-keypairs",
		"os-hypervisors", "os-hosts", "os-availability-zone", "os-quota-sets", "os-quota-class-sets", "limits",
		"os-simple-tenant-usage", "os-aggregates", "os-server-groups", "os-agents"}, segment)
}
