package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// builtin is the place of rules that are not in a file.
const builtin = "default"

// compile combines the files' rules with the defaults, and checks all references.
func compile(defaults []Rule, written []entry, opts Options) (*ruleset, error) {
	set := &ruleset{rules: map[string]entry{}, scopes: map[string][]string{}, fallback: opts.DefaultRule}
	for _, e := range written {
		set.rules[e.name] = e
	}
	inFiles := maps.Clone(set.rules)
	for _, rule := range defaults {
		if _, twice := set.scopes[rule.Name]; twice {
			return nil, fault.New(fault.Internal, "the service has two rules with the name %s", rule.Name)
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
	if err := set.checkAllReferences(); err != nil {
		return nil, err
	}
	set.warnings = append(set.warnings, unknownNameWarnings(set, written, opts)...)
	return set, nil
}

// unknownNameWarnings returns a warning for each rule in a file that has no effect: no service has a rule of this name,
// and no rule refers to it.
func unknownNameWarnings(set *ruleset, written []entry, opts Options) (warnings []string) {
	if len(opts.Names) == 0 {
		return nil
	}
	used := map[string]bool{opts.DefaultRule: true}
	for _, name := range opts.Names {
		used[name] = true
	}
	for _, e := range slices.Concat(written, slices.Collect(maps.Values(set.rules))) {
		for _, name := range references(e.check.root, nil) {
			used[name] = true
		}
	}
	for _, e := range written {
		if used[e.name] {
			continue
		}
		used[e.name] = true
		text := fmt.Sprintf("%s: rule %q has no effect: Berth has no rule of this name, and no rule refers to it",
			e.place, e.name)
		if similar := fault.Similar(e.name, opts.Names, 2+len(e.name)/10); len(similar) > 0 {
			text += fmt.Sprintf("; did you mean %q?", similar[0])
		}
		warnings = append(warnings, text)
	}
	return warnings
}

// Names returns the names that rules have in files, with the former ones.
func Names(rules ...[]Rule) (names []string) {
	for _, rule := range slices.Concat(rules...) {
		names = append(names, rule.Name)
		if rule.Deprecated != nil {
			names = append(names, rule.Deprecated.Name)
		}
	}
	return names
}

func checkScopes(rule Rule) error {
	for _, scope := range rule.Scopes {
		if !slices.Contains([]string{"system", "domain", "project"}, scope) {
			return invalid(builtin, rule.Name, "there is no scope %q", scope)
		}
	}
	return nil
}

// effective returns the rule that applies for a rule in code: the one with its name in a file; or else the one with its
// old name in a file, unless that repeats the old default or refers to the new rule; or else the default. While new
// defaults are not enforced, the default allows what the old check allows, too.
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
		warning = fmt.Sprintf("%s: rule %q is deprecated; use %q instead", own.place, own.name, rule.Name)
		if text := own.check.String(); text != old.String() && text != "rule:"+rule.Name {
			return entry{rule.Name, own.place, own.check}, warning, nil
		}
	}
	if !opts.EnforceNewDefaults && rule.Deprecated.Check != rule.Check {
		e.check = Check{anyOf{now.root, old.root}}
	}
	return e, warning, nil
}

// checkAllReferences returns an error for a cycle of references, and warns of references to rules that do not exist.
func (s *ruleset) checkAllReferences() error {
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.rules)) {
		if err := s.checkReferences(name, nil, done); err != nil {
			return err
		}
	}
	return nil
}

// checkReferences follows all references from a rule; trail holds the rules that lead to it.
func (s *ruleset) checkReferences(name string, trail []string, done map[string]bool) error {
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
			s.warnings = append(s.warnings, fmt.Sprintf("%s: rule %q refers to rule:%s, which does not exist",
				e.place, e.name, reference))
		}
		if s.find(reference) == nil {
			continue
		}
		if err := s.checkReferences(reference, trail, done); err != nil {
			return err
		}
	}
	done[e.name] = true
	return nil
}

// references returns the rules that a tree refers to by rule:name.
func references(n node, found []string) []string {
	switch n := n.(type) {
	case byRule:
		return append(found, string(n))
	case negation:
		return references(n.node, found)
	case allOf:
		for _, inner := range n {
			found = references(inner, found)
		}
	case anyOf:
		for _, inner := range n {
			found = references(inner, found)
		}
	}
	return found
}

// duplicateWarnings returns a warning for each rule that is repeated in a file.
func duplicateWarnings(entries []entry) (warnings []string) {
	first := map[string]entry{}
	for _, e := range entries {
		if before, ok := first[e.name]; ok {
			warnings = append(warnings, fmt.Sprintf("%s: rule %q is also at %s; the last one is used",
				e.place, e.name, before.place))
		}
		first[e.name] = e
	}
	return warnings
}
