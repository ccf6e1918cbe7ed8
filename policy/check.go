package policy

import (
	"fmt"
	"strings"
)

// Check is one parsed rule: a condition on who asks (credentials) and on what (target).
type Check struct{ root node }

// String prints the check in the rule language, in the form that oslo.policy prints it: "(role:admin or @)".
// Parsed again, it gives the same check.
func (c Check) String() string { return c.root.String() }

// node is one condition in the tree of a check. An error stops the whole judgement, and what it was about is denied;
// a plain false may still become true under a `not`.
type node interface {
	holds(*question) (bool, error)
	String() string
}

// question is what a tree is asked about.
type question struct {
	set     *ruleset
	rule    string // the rule that was asked for, for remote checks
	creds   Creds
	target  map[string]any
	visited int // rules entered so far
}

// most is how many rules one question may enter by reference. Cycles are refused when the files are read; this bounds
// rules that refer to others many times over.
const most = 10_000

type (
	constant  bool                // @ and !
	negation  struct{ node }      // not x
	all       []node              // x and y
	some      []node              // x or y
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
func (a all) String() string       { return join(a, " and ") }
func (s some) String() string      { return join(s, " or ") }
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

func (c constant) holds(*question) (bool, error) { return bool(c), nil }

func (n negation) holds(q *question) (bool, error) {
	ok, err := n.node.holds(q)
	return !ok && err == nil, err
}

func (a all) holds(q *question) (bool, error) {
	for _, n := range a {
		if ok, err := n.holds(q); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s some) holds(q *question) (bool, error) {
	for _, n := range s {
		if ok, err := n.holds(q); ok || err != nil {
			return ok && err == nil, err
		}
	}
	return false, nil
}

// A rule that nobody wrote, without a default rule, holds for nobody.
func (r byRule) holds(q *question) (bool, error) {
	e := q.set.find(string(r))
	if e == nil {
		return false, nil
	}
	if q.visited++; q.visited > most {
		return false, fmt.Errorf("the rules refer to one another more than %d times", most)
	}
	return e.check.root.holds(q)
}

// Roles are compared without regard to case.
func (r byRole) holds(q *question) (bool, error) {
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
		return false, fmt.Errorf("the credentials' roles are no list")
	}
	want = strings.ToLower(want)
	for _, name := range names {
		text, ok := name.(string)
		if !ok {
			return false, fmt.Errorf("the credentials have a role that is no text")
		}
		if strings.ToLower(text) == want {
			return true, nil
		}
	}
	return false, nil
}

func (l byLiteral) holds(q *question) (bool, error) {
	want, found, err := l.of.fill(q.target)
	return found && err == nil && want == l.value, err
}

func (p byPath) holds(q *question) (bool, error) {
	want, found, err := p.of.fill(q.target)
	if !found || err != nil {
		return false, err
	}
	return search(q.creds.get, p.path, want)
}

// search follows a path into the credentials. In a list it is enough when one element leads to the text that is wanted.
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
		if ok, err := reach(element, rest, want); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func reach(value any, rest []string, want string) (bool, error) {
	if len(rest) == 0 {
		text, err := textOf(value)
		return err == nil && text == want, err
	}
	inner, ok := value.(map[string]any)
	if !ok {
		return false, fmt.Errorf("the credentials have no %q below what is no mapping", rest[0])
	}
	return search(func(key string) (any, bool) { v, found := inner[key]; return v, found }, rest, want)
}
