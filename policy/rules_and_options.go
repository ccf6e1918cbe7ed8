package policy

// Rule is one of a service's rules, as defined in its code.
type Rule struct {
	Name        string      // "placement:usages"
	Check       string      // in the rule language
	Scopes      []string    // the scopes of tokens it accepts: system, domain, project; empty: any
	Deprecated  *Deprecated // the rule that it replaces
	Description string
}

// Deprecated is the former name and check of a rule. While Options.EnforceNewDefaults is not set, a request that meets
// the old check is allowed too. A rule with the old name in a file has precedence over the new rule's default.
type Deprecated struct{ Name, Check string }

// Options are the settings of an Enforcer: [oslo_policy]. The zero value has the defaults.
type Options struct {
	EnforceNewDefaults bool // enforce_new_defaults: deprecated checks are not evaluated
	EnforceScope       bool // enforce_scope: a token without one of a rule's scopes is denied
	// policy_default_rule: the rule that is used in place of rules that do not exist; empty: "default"
	DefaultRule string
	Names       []string // of the rules of all services: a file with another name gets a warning; empty: none does
	Remote      Remote   // for http: and https: checks
}
