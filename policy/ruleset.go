package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// entry is one rule with the place it was written at.
type entry struct {
	name  string
	place string // "policy.yaml:12", or "default"
	check Check
}

// ruleset is what all files and defaults come to. It does not change.
type ruleset struct {
	rules    map[string]entry
	scopes   map[string][]string // of the rules in code
	fallback string              // the name of the default rule
	remote   *remote
	warnings []string
}

// find gives the rule of a name, or the default rule, or nil.
func (s *ruleset) find(name string) *entry {
	if e, ok := s.rules[name]; ok {
		return &e
	}
	if e, ok := s.rules[s.fallback]; ok {
		return &e
	}
	return nil
}

// builtin is the place of rules that no file has.
const builtin = "default"

// compile lays the files' rules over the defaults.
func compile(defaults []Rule, written []entry, opts Options) (*ruleset, error) {
	set := &ruleset{rules: map[string]entry{}, scopes: map[string][]string{}, fallback: opts.DefaultRule}
	for _, e := range written {
		set.rules[e.name] = e
	}
	inFiles := maps.Clone(set.rules)
	for _, rule := range defaults {
		if _, twice := set.scopes[rule.Name]; twice {
			return nil, fault.New(fault.Internal, "policy", "the service has two rules of the name %s", rule.Name)
		}
		set.scopes[rule.Name] = rule.Scopes
		if err := checkScopes(rule); err != nil {
			return nil, err
		}
		e, warning, err := effective(rule, inFiles, opts)
		if err != nil {
			return nil, err
		}
		if warning != "" {
			set.warnings = append(set.warnings, warning)
		}
		set.rules[rule.Name] = e
	}
	return set, set.verify()
}

func checkScopes(rule Rule) error {
	for _, scope := range rule.Scopes {
		if !slices.Contains([]string{"system", "domain", "project"}, scope) {
			return invalid(builtin, rule.Name, "there is no scope %q", scope)
		}
	}
	return nil
}

// effective is what holds for a rule in code: what a file has under its name; or under its old name, unless that
// only says the old default or refers to the new rule; or the default, with the old one beside it while new
// defaults are not enforced.
func effective(rule Rule, inFiles map[string]entry, opts Options) (e entry, warning string, err error) {
	now, err := Parse(rule.Check)
	if err != nil {
		return entry{}, "", invalid(builtin, rule.Name, "%w", err)
	}
	var old Check
	if rule.Deprecated != nil {
		if old, err = Parse(rule.Deprecated.Check); err != nil {
			return entry{}, "", invalid(builtin, rule.Name, "its deprecated check: %w", err)
		}
	}
	if e, ok := inFiles[rule.Name]; ok {
		return e, "", nil
	}
	e = entry{rule.Name, builtin, now}
	if rule.Deprecated == nil {
		return e, "", nil
	}
	if own, ok := inFiles[rule.Deprecated.Name]; ok && rule.Deprecated.Name != rule.Name {
		warning = fmt.Sprintf("%s: rule %q is deprecated; write %q in its place", own.place, own.name, rule.Name)
		if text := own.check.String(); text != old.String() && text != "rule:"+rule.Name {
			return entry{rule.Name, own.place, own.check}, warning, nil
		}
	}
	if !opts.EnforceNewDefaults && rule.Deprecated.Check != rule.Check {
		e.check = Check{some{now.root, old.root}}
	}
	return e, warning, nil
}

// verify refuses cycles of references, and warns of references to nothing.
func (s *ruleset) verify() error {
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.rules)) {
		if err := s.follow(name, nil, done); err != nil {
			return err
		}
	}
	return nil
}

// follow walks all references from a rule; trail are the rules on the way here.
func (s *ruleset) follow(name string, trail []string, done map[string]bool) error {
	e := s.find(name)
	if at := slices.Index(trail, e.name); at >= 0 {
		return invalid(e.place, e.name, "it refers to itself: %s", strings.Join(append(trail[at:], e.name), " → "))
	}
	if done[e.name] {
		return nil
	}
	trail = append(slices.Clip(trail), e.name)
	for _, reference := range references(e.check.root, nil) {
		if _, ok := s.rules[reference]; !ok {
			s.warnings = append(s.warnings, fmt.Sprintf("%s: rule %q refers to rule:%s, which nobody "+
				"wrote", e.place, e.name, reference))
		}
		if s.find(reference) == nil {
			continue
		}
		if err := s.follow(reference, trail, done); err != nil {
			return err
		}
	}
	done[e.name] = true
	return nil
}

// references lists the names behind rule: in a tree.
func references(n node, found []string) []string {
	switch n := n.(type) {
	case byRule:
		return append(found, string(n))
	case negation:
		return references(n.node, found)
	case all:
		for _, inner := range n {
			found = references(inner, found)
		}
	case some:
		for _, inner := range n {
			found = references(inner, found)
		}
	}
	return found
}

// twice warns of rules that one file has more than once.
func twice(entries []entry) (warnings []string) {
	first := map[string]entry{}
	for _, e := range entries {
		if before, ok := first[e.name]; ok {
			warnings = append(warnings, fmt.Sprintf("%s: rule %q stands at %s already; this one "+
				"counts", e.place, e.name, before.place))
		}
		first[e.name] = e
	}
	return warnings
}
