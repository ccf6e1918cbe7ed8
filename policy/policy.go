// Package policy decides who may do what, by oslo.policy's rule language and files.
//
// A service has rules in code (Rule); files may replace them and add others. An Enforcer holds the sum and answers
// Allow(rule, credentials, target). It is kinder to the operator than oslo.policy at one point: what that logs and
// denies from then on, or fails each request with (a rule that cannot be parsed, a cycle of references, a % that
// begins no %(key)s, an entry that is no rule), stops the load here, with the file, the line and the rule. Three
// things are lenient as there, with a warning: a reference to a rule that nobody wrote holds for nobody (or falls to
// the default rule), of an entry that a file has twice the last one counts, and a file's unknown rules are kept.
//
// In a judgement, an error (a credential of the wrong kind, a remote server that is silent) denies the whole
// question, also under a `not`.
package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/openberth/berth/fault"
)

// Rule is one of a service's rules, as its code has it.
type Rule struct {
	Name        string      // "placement:usages"
	Check       string      // in the rule language
	Scopes      []string    // the scopes of tokens it is meant for: system, domain, project; none: any
	Deprecated  *Deprecated // what it replaces
	Description string
}

// Deprecated is what a rule was before. While Options.EnforceNewDefaults is not set, its check allows as well; a file's
// rule of its name goes before the new rule's default.
type Deprecated struct{ Name, Check string }

// Creds are what is known about who asks, under oslo.context's names: user_id, project_id, roles ([]string),
// system_scope,
// domain_id, user_domain_id, project_domain_id, is_admin_project … Values are text, bool, int, int64, float64, nil
// (which
// reads None), lists ([]string, []any) or mappings (map[string]any) of them. Nobody changes them.
type Creds map[string]any

// get finds a credential. `system` is another name of a system_scope that is not empty.
func (c Creds) get(key string) (any, bool) {
	if key == "system" {
		if scope := c["system_scope"]; truth(scope) {
			return scope, true
		}
	}
	value, found := c[key]
	return value, found
}

// scope is what a token of these credentials is for.
func (c Creds) scope() string {
	set := func(key string) bool {
		value, _ := c.get(key)
		return truth(value)
	}
	switch {
	case set("system"):
		return "system"
	case set("domain_id"):
		return "domain"
	}
	return "project"
}

// Options are an Enforcer's: [oslo_policy]. The zero value is complete.
type Options struct {
	EnforceNewDefaults bool // enforce_new_defaults: deprecated rules allow nothing any more
	EnforceScope       bool // enforce_scope: a token of another scope than a rule's is denied
	// policy_default_rule: it stands for rules that nobody wrote, if there is one of its name; empty: "default"
	DefaultRule string
	Remote      Remote // for http: and https: checks
}

// Enforcer judges. It is safe for concurrent use.
type Enforcer struct {
	defaults []Rule
	opts     Options
	find     func() (paths []string, warnings []string) // where the files are
	remote   *remote

	reload sync.Mutex // one Reload at a time; guards seen
	seen   string
	set    atomic.Pointer[ruleset]
}

// New reads files over a service's defaults; of one name, a later file's rule counts. A directory stands for all
// files right
// in it whose names do not begin with a dot, in alphabetical order. A file that is missing is a fault NotFound, a
// wrong one Invalid.
func New(defaults []Rule, opts Options, paths ...string) (*Enforcer, error) {
	return start(defaults, opts, func() ([]string, []string) { return paths, nil })
}

func start(defaults []Rule, opts Options, find func() ([]string, []string)) (*Enforcer, error) {
	if opts.DefaultRule == "" {
		opts.DefaultRule = "default"
	}
	r, err := newRemote(opts.Remote)
	if err != nil {
		return nil, err
	}
	e := &Enforcer{defaults: defaults, opts: opts, find: find, remote: r}
	if _, err := e.Reload(); err != nil {
		return nil, err
	}
	return e, nil
}

// Reload reads the files again if one of them has another size or time than before, or has come or gone; it tells
// whether it
// did. After an error the rules stay as they were, and the next Reload reads again.
func (e *Enforcer) Reload() (bool, error) {
	e.reload.Lock()
	defer e.reload.Unlock()
	paths, warnings := e.find()
	files, seen, err := list(paths)
	if err != nil {
		return false, err
	}
	if e.set.Load() != nil && seen == e.seen {
		return false, nil
	}
	var written []entry
	for _, file := range files {
		entries, err := readFile(file)
		if err != nil {
			return false, err
		}
		written, warnings = append(written, entries...), append(warnings, twice(entries)...)
	}
	set, err := compile(e.defaults, written, e.opts)
	if err != nil {
		return false, err
	}
	set.remote, set.warnings = e.remote, append(warnings, set.warnings...)
	e.set.Store(set)
	e.seen = seen
	return true, nil
}

// Warnings are sentences about rules that hold but may not be meant, from the last time the files were read.
func (e *Enforcer) Warnings() []string { return e.set.Load().warnings }

// Allow judges a rule. When it says no, why tells the reason, for a log or for the caller. A rule that nobody
// wrote is denied, unless there is a default rule. Target is what the operation is about, such as project_id.
func (e *Enforcer) Allow(rule string, creds Creds, target map[string]any) (bool, string) {
	set := e.set.Load()
	found := set.find(rule)
	if found == nil {
		return false, fmt.Sprintf("nobody wrote a rule %s, and there is no rule %s", rule, set.fallback)
	}
	if scopes := set.scopes[rule]; e.opts.EnforceScope && len(scopes) > 0 && !slices.Contains(scopes, creds.scope()) {
		return false, fmt.Sprintf("%s is for tokens of the scope %s; this one is for the scope "+
			"%s", rule, strings.Join(scopes, " or "), creds.scope())
	}
	ok, err := found.check.root.holds(&question{set: set, rule: rule, creds: creds, target: target})
	switch {
	case err != nil:
		return false, fmt.Sprintf("%s cannot be judged, so it is denied: %v", rule, err)
	case !ok:
		return false, fmt.Sprintf("%s takes %s (%s)", rule, found.check, found.place)
	}
	return true, ""
}

func invalid(place, name, format string, args ...any) error {
	reason := fmt.Errorf(format, args...)
	return fault.New(fault.Invalid, "policy", "%s: rule %q: %w", place, name, reason)
}
