package server

import "github.com/openberth/berth/api/identity"

// defaultEnforcer implements the default rules: the roles admin and service may make all requests, and the role reader
// may read the usages of its own project.
type defaultEnforcer struct{}

// Allow implements edge.Enforcer.
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
		return map[string]any{"project_id": c.Who.Project, "user_id": c.Who.User}
	}
	given := parseQuery(c.R.URL.RawQuery)["project_id"]
	if len(given) == 0 {
		return map[string]any{"project_id": nil}
	}
	return map[string]any{"project_id": given[len(given)-1]}
}
