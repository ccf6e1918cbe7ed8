package request

import (
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
)

// Method is one method of a path, Methods are all of them, and Routes are paths with their methods.
type (
	Method  = edge.Method[*Call]
	Methods = map[string]Method
	Routes  = map[string]Methods
)

// Open returns a method without a policy rule.
func Open(handle func(*Call) error) Method { return Method{Handle: handle} }

// Guarded returns a method that the policy allows or refuses before it is handled.
func Guarded(rule string, handle func(*Call) error) Method {
	return Method{Spec: edge.Spec{Rule: rule}, Handle: handle}
}

// Refused returns a handler that refuses every request with one reason.
func Refused(reason string) func(*Call) error {
	return func(*Call) error { return NotImplemented("%s", reason) }
}

// Empty returns a handler that responds with an empty list under a key.
func Empty(key string) func(*Call) error {
	return func(c *Call) error { return c.WriteJSON(http.StatusOK, map[string]any{key: []any{}}) }
}

// Since returns a method that exists since a microversion.
func Since(v compute.Version, m Method) Method {
	return when(m, func(c *Call) bool { return c.Has(v) })
}

// Until returns a method that a microversion has removed.
func Until(v compute.Version, m Method) Method {
	return when(m, func(c *Call) bool { return !c.Has(v) })
}

// when returns a method whose path is unknown to calls for which exists returns false.
func when(m Method, exists func(*Call) bool) Method {
	handle := m.Handle
	m.Handle = func(c *Call) error {
		if !exists(c) {
			return UnknownPath(c)
		}
		return handle(c)
	}
	return m
}

// Join returns the routes of several resources. It panics if two of them have the same path, as http.ServeMux does.
func Join(parts ...Routes) Routes {
	all := Routes{}
	for _, routes := range parts {
		for path, methods := range routes {
			if all[path] != nil {
				panic("two routes have the path " + path)
			}
			all[path] = methods
		}
	}
	return all
}
