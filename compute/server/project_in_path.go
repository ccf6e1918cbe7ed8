package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// projectKey is the context key of the project id that withoutProject has removed from the path.
type projectKey struct{}

// withoutProject changes /v2.1/{project_id}/servers/… to /v2.1/servers/…: until 2.18 the API has the project in its
// paths.
func withoutProject(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v2.1/")
	project, tail, two := strings.Cut(rest, "/")
	resource, _, _ := strings.Cut(tail, "/")
	if !ok || !two || isResource(project) || !isResource(resource) {
		return r
	}
	short, err := r.URL.Parse("/v2.1/" + tail)
	if err != nil {
		return r
	}
	if project, err = url.PathUnescape(project); err != nil {
		return r
	}
	short.RawQuery = r.URL.RawQuery
	r = r.Clone(context.WithValue(r.Context(), projectKey{}, project))
	r.URL = short
	return r
}

func isResource(segment string) bool {
	return slices.Contains([]string{"servers", "flavors", "os-migrations", "os-services", "os-keypairs",
		"os-hypervisors", "os-hosts", "os-availability-zone", "os-quota-sets", "os-quota-class-sets", "limits",
		"os-simple-tenant-usage", "os-aggregates", "os-server-groups", "os-agents"}, segment)
}
