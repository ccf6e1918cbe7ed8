package policy

import (
	"fmt"
	"strings"
)

// Check is one parsed rule: a condition on the credentials of a request and on its target.
type Check struct{ root node }

// String returns the check in the rule language, in oslo.policy's form: "(role:admin or @)". Parse returns an equal
// check for it.
func (c Check) String() string { return c.root.String() }

// node is one condition in the tree of a check. An error ends the whole evaluation and denies the request; false
// without an error becomes true under a `not`.
type node interface {
	holds(*evaluation) (bool, error)
	String() string
}

// evaluation is one evaluation of a rule for a request.
type evaluation struct {
	set     *ruleset
	rule    string // the rule given to Allow, for remote checks
	creds   Creds
	target  map[string]any
	visited int // rules entered so far
}

// maxVisited is the number of rules that one evaluation may enter by reference. Cycles are rejected when the files are
// read; this bounds rules that refer to the same rules many times.
const maxVisited = 10_000

type (
	constant  bool                // @ and !
	negation  struct{ node }      // not x
	allOf     []node              // x and y
	anyOf     []node              // x or y
	byRule    string              // rule:name
	byRole    struct{ of format } // role:name
	byLiteral struct {            // 'literal':%(key)s
		kind, value string
		of          format
	}
	byPath struct { // project_id:%(project_id)s, token.project.id:…
		kind string
		path []string
		of   format
	}
	byRemote struct { // http://server/%(key)s
		kind string
		of   format
	}
)

func (c constant) String() string {
	if c {
		return "@"
	}
	return "!"
}
func (n negation) String() string  { return "not " + n.node.String() }
func (a allOf) String() string     { return join(a, " and ") }
func (s anyOf) String() string     { return join(s, " or ") }
func (r byRule) String() string    { return "rule:" + string(r) }
func (r byRole) String() string    { return "role:" + r.of.text }
func (l byLiteral) String() string { return l.kind + ":" + l.of.text }
func (p byPath) String() string    { return p.kind + ":" + p.of.text }
func (r byRemote) String() string  { return r.kind + ":" + r.of.text }

func join(nodes []node, word string) string {
	parts := make([]string, len(nodes))
	for i, n := range nodes {
		parts[i] = n.String()
	}
	return "(" + strings.Join(parts, word) + ")"
}

func (c constant) holds(*evaluation) (bool, error) { return bool(c), nil }

func (n negation) holds(q *evaluation) (bool, error) {
	ok, err := n.node.holds(q)
	return !ok && err == nil, err
}

func (a allOf) holds(q *evaluation) (bool, error) {
	for _, n := range a {
		if ok, err := n.holds(q); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s anyOf) holds(q *evaluation) (bool, error) {
	for _, n := range s {
		if ok, err := n.holds(q); ok || err != nil {
			return ok && err == nil, err
		}
	}
	return false, nil
}

// A reference to a rule that does not exist is false without a default rule.
func (r byRule) holds(q *evaluation) (bool, error) {
	e := q.set.find(string(r))
	if e == nil {
		return false, nil
	}
	if q.visited++; q.visited > maxVisited {
		return false, fmt.Errorf("the rules refer to one another more than %d times", maxVisited)
	}
	return e.check.root.holds(q)
}

// holds compares the role with the credentials' roles, ignoring case.
func (r byRole) holds(q *evaluation) (bool, error) {
	want, found, err := r.of.fill(q.target)
	if !found || err != nil {
		return false, err
	}
	roles, given := q.creds["roles"]
	if !given {
		return false, nil
	}
	var names []any
	switch list := roles.(type) {
	case []string:
		for _, name := range list {
			names = append(names, name)
		}
	case []any:
		names = list
	default:
		return false, fmt.Errorf("the credentials' roles are not a list")
	}
	want = strings.ToLower(want)
	for _, name := range names {
		text, ok := name.(string)
		if !ok {
			return false, fmt.Errorf("the credentials have a role that is not text")
		}
		if strings.ToLower(text) == want {
			return true, nil
		}
	}
	return false, nil
}

func (l byLiteral) holds(q *evaluation) (bool, error) {
	want, found, err := l.of.fill(q.target)
	return found && err == nil && want == l.value, err
}

func (p byPath) holds(q *evaluation) (bool, error) {
	want, found, err := p.of.fill(q.target)
	if !found || err != nil {
		return false, err
	}
	return search(func(key string) (any, bool) { return credential(q.creds, key) }, p.path, want)
}

// search reports whether a path into the credentials leads to the wanted text. For a list, one element is enough.
func search(get func(string) (any, bool), path []string, want string) (bool, error) {
	value, found := get(path[0])
	if !found {
		return false, nil
	}
	rest := path[1:]
	elements := []any{value}
	switch list := value.(type) {
	case []any:
		elements = list
	case []string:
		elements = elements[:0]
		for _, text := range list {
			elements = append(elements, text)
		}
	}
	for _, element := range elements {
		if ok, err := searchBelow(element, rest, want); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// searchBelow reports whether value, followed along the rest of a path, is the wanted text.
func searchBelow(value any, rest []string, want string) (bool, error) {
	if len(rest) == 0 {
		text, err := textOf(value)
		return err == nil && text == want, err
	}
	inner, ok := value.(map[string]any)
	if !ok {
		return false, fmt.Errorf("the credentials have no %q: the value above it is not a mapping", rest[0])
	}
	return search(func(key string) (any, bool) { v, found := inner[key]; return v, found }, rest, want)
}

// entry is one rule with its place.
type entry struct {
	name  string
	place string // "policy.yaml:12", or "default"
	check Check
}

// ruleset is the combination of all files and defaults. It is immutable.
type ruleset struct {
	rules    map[string]entry
	scopes   map[string][]string // of the rules in code
	fallback string              // the name of the default rule
	remote   *remote
	warnings []string
}

// find returns the rule with a name, or the default rule, or nil.
func (s *ruleset) find(name string) *entry {
	if e, ok := s.rules[name]; ok {
		return &e
	}
	if e, ok := s.rules[s.fallback]; ok {
		return &e
	}
	return nil
}
