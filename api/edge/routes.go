package edge

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Route declares a path with its methods.
type Route[C Caller] struct {
	Path    string // a segment in braces is a variable, which matches any text except the empty one
	Public  bool   // Authenticate accepts every caller
	Methods map[string]Method[C]
}

// Method declares a method of a route.
type Method[C Caller] struct {
	Spec
	Handle func(C) error
}

// table finds routes. Routes are grouped by the number of slashes in their path.
type table[C Caller] struct{ bySlashes map[int][]*entry[C] }

// entry is a route of the table.
type entry[C Caller] struct {
	found    foundRoute
	segments []string
	methods  map[string]Method[C]
}

func newTable[C Caller](routes []Route[C], headIsGet bool) table[C] {
	t := table[C]{bySlashes: map[int][]*entry[C]{}}
	for _, r := range routes {
		e := &entry[C]{segments: strings.Split(r.Path, "/"), methods: maps.Clone(r.Methods)}
		allowed := slices.Sorted(maps.Keys(r.Methods))
		if get, ok := r.Methods[http.MethodGet]; ok && headIsGet {
			e.methods[http.MethodHead] = get
			allowed = append(allowed, http.MethodHead)
		}
		e.found = foundRoute{path: r.Path, public: r.Public, allow: strings.Join(allowed, ", ")}
		n := len(e.segments) - 1
		t.bySlashes[n] = append(t.bySlashes[n], e)
	}
	for _, group := range t.bySlashes { // words before variables: /servers/detail before /servers/{id}
		slices.SortStableFunc(group, func(a, b *entry[C]) int {
			return slices.CompareFunc(a.segments, b.segments, bySegment)
		})
	}
	return t
}

// bySegment orders words before variables, and does not order two words.
func bySegment(a, b string) int {
	switch {
	case variable(a) == variable(b):
		return 0
	case variable(a):
		return 1
	}
	return -1
}

func variable(segment string) bool { return strings.HasPrefix(segment, "{") }

// find sets the route, the method and the path variables of a call, as far as the table has them, and returns the
// handler.
func (t *table[C]) find(c *Call, escaped bool) func(C) error {
	path := c.R.URL.Path
	if escaped {
		path = c.R.URL.EscapedPath()
	}
	for _, e := range t.bySlashes[strings.Count(path, "/")] {
		var room [4]string
		values, ok := e.match(room[:0], path, escaped)
		if !ok {
			continue
		}
		i := 0
		for _, s := range e.segments {
			if variable(s) {
				c.R.SetPathValue(s[1:len(s)-1], values[i])
				i++
			}
		}
		m, ok := e.methods[c.R.Method]
		c.route, c.Spec, c.hasMethod = &e.found, m.Spec, ok
		return m.Handle
	}
	return nil
}

// match compares a path with the route and appends the values of the variables.
func (e *entry[C]) match(values []string, path string, escaped bool) ([]string, bool) {
	for _, want := range e.segments {
		part, rest, _ := strings.Cut(path, "/")
		path = rest
		if escaped && strings.Contains(part, "%") {
			plain, err := url.PathUnescape(part)
			if err != nil {
				return nil, false
			}
			part = plain
		}
		switch {
		case !variable(want):
			if part != want {
				return nil, false
			}
		case part == "":
			return nil, false
		default:
			values = append(values, part)
		}
	}
	return values, true
}
