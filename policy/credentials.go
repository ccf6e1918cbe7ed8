package policy

// Creds are the credentials of a request under oslo.context's names: user_id, project_id, roles ([]string),
// system_scope, domain_id, user_domain_id, project_domain_id, is_admin_project … Values are text, bool, int, int64,
// float64, nil (None in a rule), lists ([]string, []any) or mappings (map[string]any) of them. They are read-only.
type Creds = map[string]any

// credential returns a credential, and whether it is set. `system` is another name of a system_scope that is not empty.
func credential(c Creds, key string) (any, bool) {
	if key == "system" {
		if scope := c["system_scope"]; isTrue(scope) {
			return scope, true
		}
	}
	value, found := c[key]
	return value, found
}

// scopeOf returns the scope of the token with these credentials: system, domain or project.
func scopeOf(c Creds) string {
	set := func(key string) bool {
		value, _ := credential(c, key)
		return isTrue(value)
	}
	switch {
	case set("system"):
		return "system"
	case set("domain_id"):
		return "domain"
	}
	return "project"
}
