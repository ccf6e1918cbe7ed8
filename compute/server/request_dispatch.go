package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// handler handles one method on one path. Its error is sent to the client in the error body of the API.
type handler func(*call) error

// methods are the handlers of one path, by HTTP method.
type methods map[string]handler

// public marks paths that need no token. Its handler, if any, handles all methods.
const public = "public"

// endpoint handles one path: it determines the version, the caller and the method, and writes the error of the handler.
func (s *server) endpoint(m methods) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, version: compute.Min, budget: s.budget}
		c.project, _ = r.Context().Value(projectKey{}).(string)
		if err := s.run(c, m); err != nil {
			s.writeFault(c, err)
		}
		if c.end != nil {
			c.end()
		}
	})
}

func (s *server) run(c *call, m methods) error {
	if err := s.Store.Available(); err != nil && c.R.URL.Path != healthPath {
		return err
	}
	if strings.HasPrefix(c.R.URL.Path, "/v2.1") {
		version, err := compute.Negotiate(c.R.Header)
		c.version = version
		c.setVersionHeaders()
		if err != nil {
			return err
		}
	}
	fallback, open := m[public]
	if !open {
		who, err := s.Authenticate(c.R)
		if err == nil && who.User == "" { // Placement accepts a caller without a name; a server must have a user
			err = fault.New(fault.Forbidden, "", "X-Auth-Token has no user; send user:project, for example admin")
		}
		if err != nil {
			return unauthorized(err)
		}
		c.Who = who
		if c.project != "" && c.project != who.Project {
			return fault.New(fault.Invalid, "",
				"the path has project %q, the token project %q; use the same project", c.project, who.Project)
		}
	}
	method := c.R.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch do := m[method]; {
	case do != nil:
		if err := c.checkHost(); err != nil {
			return err
		}
		return do(c)
	case fallback != nil:
		return fallback(c)
	}
	return c.wrongMethod(m)
}

// setVersionHeaders sets the microversion of the response, and Vary, because the response depends on it.
func (c *call) setVersionHeaders() {
	h := c.W.Header()
	h.Set(compute.VersionHeader, compute.Service+" "+c.version.String())
	h.Set(compute.LegacyVersionHeader, c.version.String())
	h.Set("Vary", compute.VersionHeader+", "+compute.LegacyVersionHeader)
}

func (c *call) wrongMethod(m methods) error {
	allowed := slices.Sorted(maps.Keys(m))
	allowed = slices.DeleteFunc(allowed, func(name string) bool { return name == public })
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	c.W.Header().Set("Allow", strings.Join(allowed, ", "))
	return status(http.StatusMethodNotAllowed, fault.NotFound,
		"method %s is not allowed on %s; the header Allow lists the allowed methods", c.R.Method, c.R.URL.Path)
}

func unknownPath(c *call) error {
	return fault.New(fault.NotFound, "", "there is nothing at %s", c.R.URL.Path)
}

// admin returns a handler that requires the role admin.
func admin(do handler) handler {
	return func(c *call) error {
		if !c.Who.IsAdmin() {
			return fault.New(fault.Forbidden, "", "%s %s needs the role admin, which %s does not have",
				c.R.Method, c.R.URL.Path, c.Who.User)
		}
		return do(c)
	}
}

// service returns a handler that requires the role service or admin.
func service(do handler) handler {
	return func(c *call) error {
		if !c.Who.IsAdmin() && !c.Who.Has("service") {
			return fault.New(fault.Forbidden, "", "%s %s needs the role service or admin, and %s has neither",
				c.R.Method, c.R.URL.Path, c.Who.User)
		}
		return do(c)
	}
}
