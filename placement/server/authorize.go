package server

import (
	"net/http"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// denyAll is the Authenticator of a server without Options.Auth.
func denyAll(*http.Request) (identity.Identity, error) {
	return identity.Identity{}, fault.New(fault.Forbidden, "placement.server", "No authentication is configured.")
}

// defaultEnforcer implements the default rules: the roles admin and service may make all requests, and the role reader
// may read the usages of its own project.
type defaultEnforcer struct{}

// Allow implements Enforcer.
func (defaultEnforcer) Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string) {
	if caller.Has("admin") || caller.Has("service") {
		return true, ""
	}
	if rule != ruleUsages {
		return false, "the role admin or service is required"
	}
	if project, _ := target["project_id"].(string); !caller.Has("reader") || project == "" || project != caller.Project {
		return false, "the role admin or service is required, or reader for the token's own project"
	}
	return true, ""
}

// ruleUsages is the only rule whose target is not the caller.
const ruleUsages = "placement:usages"

// target returns the attributes of a request that a rule may refer to.
func (c *call) target(rule string) map[string]any {
	if rule != ruleUsages {
		return map[string]any{"project_id": c.caller.Project, "user_id": c.caller.User}
	}
	given := parseQuery(c.r.URL.RawQuery)["project_id"]
	if len(given) == 0 {
		return map[string]any{"project_id": nil}
	}
	return map[string]any{"project_id": given[len(given)-1]}
}

// authorize returns status 403 if the policy does not allow the request. An empty rule allows every request.
func (c *call) authorize(rule string) error {
	if rule == "" {
		return nil
	}
	if ok, why := c.server.opts.Enforcer.Allow(rule, c.caller, c.target(rule)); !ok {
		c.server.log.Debug("policy refused request", "request_id", c.id, "rule", rule, "user", c.caller.User,
			"project", c.caller.Project, "roles", c.caller.Roles, "why", why)
		return newStatusError(http.StatusForbidden, "Policy does not allow %s to be performed.", rule)
	}
	return nil
}
