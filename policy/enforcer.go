// Package policy authorizes requests with oslo.policy's rule language and files.
//
// A service has rules in code (Rule); files may replace them and add others. An Enforcer combines them and answers
// Allow(rule, credentials, target). One thing differs from oslo.policy: a rule that cannot be parsed, a cycle of
// references, a % that does not begin %(key)s and an entry of the wrong type make the load fail, with the file, the
// line and the rule. oslo.policy logs these and denies requests from then on, or fails at each request. Three things
// are accepted as in oslo.policy: a reference to a rule that does not exist uses the default rule or else denies, with
// a warning; of two entries with the same name in a file the last one is used, with a warning; and rules that the
// service does not define are kept, with a warning if no rule refers to them. A rule without a value, which oslo.policy
// takes for one that allows all requests, makes the load fail.
//
// An error during evaluation (a credential of the wrong type, a remote server that does not answer) denies the whole
// request, also under a `not`.
package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Enforcer evaluates rules. It is safe for concurrent use.
type Enforcer struct {
	defaults []Rule
	opts     Options
	find     func() (paths []string, warnings []string) // the paths of the files
	remote   *remote

	reload     sync.Mutex // one Reload at a time; guards filesState
	filesState string
	set        atomic.Pointer[ruleset]
}

// New returns an Enforcer for a service's defaults and the files that override them; later files override earlier
// ones. A directory means all files directly in it whose names do not begin with a dot, in alphabetical order. A
// missing file is a fault NotFound, a file that is not valid a fault Invalid.
func New(defaults []Rule, opts Options, paths ...string) (*Enforcer, error) {
	return newEnforcer(defaults, opts, func() ([]string, []string) { return paths, nil })
}

func newEnforcer(defaults []Rule, opts Options, find func() ([]string, []string)) (*Enforcer, error) {
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

// Reload reads the files again if one of them has a new size or modification time, was created or was deleted. It
// reports whether it did. After an error the rules are unchanged, and the next Reload reads the files again.
func (e *Enforcer) Reload() (bool, error) {
	e.reload.Lock()
	defer e.reload.Unlock()
	paths, warnings := e.find()
	files, seen, err := listFiles(paths)
	if err != nil {
		return false, err
	}
	if e.set.Load() != nil && seen == e.filesState {
		return false, nil
	}
	var written []entry
	for _, file := range files {
		entries, err := readFile(file)
		if err != nil {
			return false, err
		}
		written, warnings = append(written, entries...), append(warnings, duplicateWarnings(entries)...)
	}
	set, err := compile(e.defaults, written, e.opts)
	if err != nil {
		return false, err
	}
	set.remote, set.warnings = e.remote, append(warnings, set.warnings...)
	e.set.Store(set)
	e.filesState = seen
	return true, nil
}

// Warnings returns sentences about rules that are valid but probably wrong, from the last time the files were read.
func (e *Enforcer) Warnings() []string { return e.set.Load().warnings }

// Allow evaluates a rule and returns whether it allows the request, and if not, the reason for a log or the caller. A
// rule that does not exist is denied, unless there is a default rule. target holds the attributes of the object of the
// operation, such as project_id.
func (e *Enforcer) Allow(rule string, creds Creds, target map[string]any) (bool, string) {
	set := e.set.Load()
	found := set.find(rule)
	if found == nil {
		return false, fmt.Sprintf("there is no rule %s and no default rule %s", rule, set.fallback)
	}
	if scopes := set.scopes[rule]; e.opts.EnforceScope && len(scopes) > 0 && !slices.Contains(scopes, scopeOf(creds)) {
		return false, fmt.Sprintf("%s requires a token of the scope %s; this one has the scope %s",
			rule, strings.Join(scopes, " or "), scopeOf(creds))
	}
	ok, err := found.check.root.holds(&evaluation{set: set, rule: rule, creds: creds, target: target})
	switch {
	case err != nil:
		return false, fmt.Sprintf("%s cannot be evaluated, so it is denied: %v", rule, err)
	case !ok:
		return false, fmt.Sprintf("%s requires %s (%s)", rule, found.check, found.place)
	}
	return true, ""
}
