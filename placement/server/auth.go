package server

import (
	"net/http"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// Enforcer says who may do what. rule is a name of the original's, such as placement:resource_providers:list. target is what the
// request is about, under the original's names: the project_id and user_id of the caller, or for placement:usages the
// project_id of the query (nil when it has none). why is for the log.
type Enforcer interface {
	Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string)
}

// denyAll is the Authenticator of a server that was told none.
func denyAll(*http.Request) (identity.Identity, error) {
	return identity.Identity{}, fault.New(fault.Forbidden, "placement.server", "This service is not set up to know anybody.")
}

// defaultEnforcer is the rules as they are before anybody writes others: administrators and services may do all, and a reader
// may ask for the usages of its own project.
type defaultEnforcer struct{}

// Allow implements Policy.
func (defaultEnforcer) Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string) {
	if caller.Has("admin") || caller.Has("service") {
		return true, ""
	}
	if rule != ruleUsages {
		return false, "it takes the role admin or service"
	}
	if project, _ := target["project_id"].(string); !caller.Has("reader") || project == "" || project != caller.Project {
		return false, "it takes the role admin or service, or reader for the token's own project"
	}
	return true, ""
}

// ruleUsages is the one rule whose target is not the caller.
const ruleUsages = "placement:usages"

// target is what a request is about, for a rule.
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

// authorize asks the policy. A route without a rule is open to all.
func (c *call) authorize(rule string) error {
	if rule == "" {
		return nil
	}
	if ok, why := c.server.opts.Enforcer.Allow(rule, c.caller, c.target(rule)); !ok {
		c.server.log.Debug("the policy says no", "request_id", c.id, "rule", rule, "user", c.caller.User, "project", c.caller.Project, "roles", c.caller.Roles, "why", why)
		return newStatusError(http.StatusForbidden, "Policy does not allow %s to be performed.", rule)
	}
	return nil
}
