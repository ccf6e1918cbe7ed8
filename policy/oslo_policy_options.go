package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/openberth/berth/config"
)

const group = "oslo_policy"

// deprecated returns the former name of an option that was in [DEFAULT].
func deprecated(option string) []config.Name {
	return []config.Name{{Group: "DEFAULT", Option: option}}
}

// Known lists the options that Load reads, for config.Config.Unknown.
func Known() []config.Name {
	names := deprecated("policy_file")
	names = append(names, deprecated("policy_default_rule")...)
	names = append(names, deprecated("policy_dirs")...)
	for _, option := range []string{"policy_file", "policy_dirs", "policy_default_rule", "enforce_scope",
		"enforce_new_defaults", "remote_content_type",
		"remote_timeout", "remote_ssl_verify_server_crt", "remote_ssl_ca_crt_file", "remote_ssl_client_crt_file",
		"remote_ssl_client_key_file"} {
		names = append(names, config.Name{Group: group, Option: option})
	}
	return names
}

// Load returns an Enforcer with the options of [oslo_policy]. names are those of the rules of all services, which may
// be in one file; see Options.Names. A file with a relative name is read from the first of
// dirs that contains it: the directories of the configuration files, and /etc/<service>. The default of policy_file is
// policy.yaml, or else policy.json; the default of policy_dirs is policy.d. A missing file is not an error, as in
// oslo.policy, but a warning if the configuration names it; Reload reads it when it exists.
func Load(c *config.Config, defaults []Rule, names []string, dirs ...string) (*Enforcer, error) {
	opts, err := readOptions(c)
	if err != nil {
		return nil, err
	}
	opts.Names = names
	for _, option := range []string{"policy_file", "policy_dirs"} {
		for _, e := range c.All(group, option, deprecated(option)...) {
			if err := e.Check(); err != nil {
				return nil, err
			}
		}
	}
	return newEnforcer(defaults, opts, func() ([]string, []string) {
		paths, warnings := findPaths(c, dirs)
		return paths, append(warnings, scopeWarnings(c)...)
	})
}

// scopeWarnings returns a warning if enforce_scope is set: it is deprecated, and the next release always enforces
// scopes.
func scopeWarnings(c *config.Config) []string {
	e, set := c.Get(group, "enforce_scope")
	if !set {
		return nil
	}
	text := "this option is deprecated and the next release does not read it; remove it"
	if on, err := c.Bool(group, "enforce_scope", true); err == nil && !on {
		text = "this option is deprecated: the next release denies a token without one of a rule's scopes in any case; " +
			"correct the tokens or the rules, and remove the option"
	}
	return []string{fmt.Sprintf("%s: [%s] %s = %s: %s", e.Place(), e.Group, e.Option, e.Value, text)}
}

// findPaths returns the paths of the policy files and directories, and warnings about missing ones.
func findPaths(c *config.Config, dirs []string) (paths, warnings []string) {
	missing := func(e config.Entry) {
		warnings = append(warnings, fmt.Sprintf("%s: [%s] %s = %s: it does not exist and is treated as empty", e.Place(),
			e.Group, e.Option, e.Value))
	}
	if e, set := c.Get(group, "policy_file", deprecated("policy_file")...); set {
		if path, ok := findPath(e.Value, dirs); ok {
			paths = append(paths, path)
		} else {
			missing(e)
		}
	} else if path, ok := findPath("policy.yaml", dirs); ok {
		paths = append(paths, path)
	} else if path, ok := findPath("policy.json", dirs); ok {
		paths = append(paths, path)
	}
	named := c.All(group, "policy_dirs", deprecated("policy_dirs")...)
	for _, e := range named {
		if path, ok := findPath(e.Value, dirs); ok {
			paths = append(paths, path)
		} else {
			missing(e)
		}
	}
	if path, ok := findPath("policy.d", dirs); ok && len(named) == 0 {
		paths = append(paths, path)
	}
	return paths, warnings
}

// findPath returns the path of a file or directory in the first of dirs that contains it. A path that cannot be checked
// is returned, so that the error is reported when it is read.
func findPath(name string, dirs []string) (string, bool) {
	if filepath.IsAbs(name) {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			return path, true
		}
	}
	return "", false
}

func readOptions(c *config.Config) (o Options, err error) {
	text := func(into *string, option, def string, choices ...string) {
		if err == nil {
			*into, err = c.String(group, option, def, choices)
		}
	}
	truth := func(into *bool, option string, def bool) {
		if err == nil {
			*into, err = c.Bool(group, option, def)
		}
	}
	truth(&o.EnforceScope, "enforce_scope", true)
	truth(&o.EnforceNewDefaults, "enforce_new_defaults", false)
	truth(&o.Remote.Verify, "remote_ssl_verify_server_crt", false)
	text(&o.Remote.CAFile, "remote_ssl_ca_crt_file", "")
	text(&o.Remote.CertFile, "remote_ssl_client_crt_file", "")
	text(&o.Remote.KeyFile, "remote_ssl_client_key_file", "")
	const form, asJSON = "application/x-www-form-urlencoded", "application/json"
	var kind string
	text(&kind, "remote_content_type", form, form, asJSON)
	o.Remote.JSON = kind == asJSON
	if err == nil {
		o.DefaultRule, err = c.String(
			group,
			"policy_default_rule",
			"default",
			nil,
			deprecated("policy_default_rule")...)
	}
	if err == nil {
		var seconds float64
		seconds, err = c.Float(group, "remote_timeout", 60, 0.001, 3600)
		o.Remote.Timeout = time.Duration(seconds * float64(time.Second))
	}
	return o, err
}
