package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// Caller is who is asking.
type Caller struct {
	User, Project string
	Roles         []string
}

// Authenticator finds out who is asking. A fault of kind Forbidden says that nobody known is (the answer is 401); any
// other fault that it cannot be found out now.
type Authenticator func(*http.Request) (Caller, error)

// NoAuth2 believes what a request says of itself, as OpenStack's `[api] auth_strategy = noauth2` does: X-Auth-Token is
// `user` or `user:project`, roles are in X-Roles, and without that header the user admin has the role admin. It is for
// loopback addresses alone.
func NoAuth2(r *http.Request) (Caller, error) {
	tokens := r.Header.Values("X-Auth-Token")
	if len(tokens) == 0 {
		return Caller{}, fault.New(fault.Forbidden, "placement.server.NoAuth2", "The request has no X-Auth-Token, so nobody vouches for it.")
	}
	user, project, _ := strings.Cut(tokens[0], ":")
	if project == "" {
		project = user
	}
	c := Caller{User: user, Project: project}
	if given := r.Header.Values("X-Roles"); len(given) > 0 {
		for role := range strings.SplitSeq(given[0], ",") {
			c.Roles = append(c.Roles, strings.TrimSpace(role))
		}
	} else if user == "admin" {
		c.Roles = []string{"admin"}
	}
	return c, nil
}

func nobody(*http.Request) (Caller, error) {
	return Caller{}, fault.New(fault.Forbidden, "placement.server", "This service is not set up to know anybody.")
}

// Has reports whether the caller has a role; case does not count, as in oslo.policy.
func (c Caller) Has(role string) bool {
	return slices.ContainsFunc(c.Roles, func(r string) bool { return strings.EqualFold(r, role) })
}

// The default policy: what OpenStack's rules say before anybody writes others.

func anyone(*call) bool { return true }

func administrator(c *call) bool { return c.caller.Has("admin") || c.caller.Has("service") }

// projectReader: a reader may ask for the usages of its own project.
func projectReader(c *call) bool {
	project := c.r.URL.Query().Get("project_id")
	return administrator(c) || c.caller.Has("reader") && project != "" && project == c.caller.Project
}
