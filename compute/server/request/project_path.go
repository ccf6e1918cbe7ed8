package request

import (
	"net/url"
	"strings"
)

// EnterV2 changes /v2/… to /v2.1/…, which has the same resources. It does not change the path of the version document,
// nor /v2/images without a project: that is a path of the Image API, and its client must see that it has the wrong
// address.
func (c *Call) EnterV2() {
	rest, ok := strings.CutPrefix(c.R.URL.EscapedPath(), "/v2/")
	if first, _, _ := strings.Cut(rest, "/"); !ok || first == "" || first == "images" {
		return
	}
	c.setPath("/v2.1/" + rest)
	c.V2, c.Lenient = true, true
}

// RemoveSlash removes a slash at the end of a path of the Compute API, which has no meaning there.
func (c *Call) RemoveSlash() {
	path := c.R.URL.EscapedPath()
	short, ended := strings.CutSuffix(path, "/")
	if !ended || !strings.HasPrefix(short, "/v2.1/") {
		return
	}
	c.setPath(short)
}

// setPath changes the path of the request; path is escaped and valid.
func (c *Call) setPath(path string) {
	short, err := c.R.URL.Parse(path)
	if err != nil {
		return
	}
	short.RawQuery = c.R.URL.RawQuery
	c.R = c.R.Clone(c.R.Context())
	c.R.URL = short
}

// RemoveProject changes /v2.1/{project_id}/servers/… to /v2.1/servers/…: until 2.18 the API has the project in its
// paths. resources are the names of resources.
func (c *Call) RemoveProject(resources map[string]bool) {
	rest, ok := strings.CutPrefix(c.R.URL.EscapedPath(), "/v2.1/")
	project, tail, two := strings.Cut(rest, "/")
	resource, _, _ := strings.Cut(tail, "/")
	if !ok || !two || resources[project] || !resources[resource] {
		return
	}
	project, err := url.PathUnescape(project)
	if err != nil {
		return
	}
	c.setPath("/v2.1/" + tail)
	c.Project = project
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
