package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// handler handles one method on one path. Its error is sent to the client in the error body of the API.
type handler func(*call) error

// methods are the handlers of one path, by HTTP method.
type methods map[string]handler

// public marks paths that need no token. Its handler, if any, handles all methods.
const public = "public"

// healthPath is the one path that is answered also after the database has lost its file.
const healthPath = "/healthz"

// call is one request and its response.
type call struct {
	w       http.ResponseWriter
	r       *http.Request
	who     identity.Identity
	version compute.Version
	project string // the project id in the path, or empty
	budget  *rest.BodyBudget
	end     context.CancelFunc // ends the context of a request whose body was read; nil: no body was read
}

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
	if err := s.Store.Available(); err != nil && c.r.URL.Path != healthPath {
		return err
	}
	if strings.HasPrefix(c.r.URL.Path, "/v2.1") {
		version, err := compute.Negotiate(c.r.Header)
		c.version = version
		c.setVersionHeaders()
		if err != nil {
			return err
		}
	}
	fallback, open := m[public]
	if !open {
		who, err := s.Authenticate(c.r)
		if err == nil && who.User == "" { // Placement accepts a caller without a name; a server must have a user
			err = fault.New(fault.Forbidden, "", "X-Auth-Token has no user; send user:project, for example admin")
		}
		if err != nil {
			return unauthorized(err)
		}
		c.who = who
		if c.project != "" && c.project != who.Project {
			return fault.New(fault.Invalid, "",
				"the path has project %q, the token project %q; use the same project", c.project, who.Project)
		}
	}
	method := c.r.Method
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

// checkHost returns fault.Invalid (400) if the path has a {host} that is not a valid host name.
func (c *call) checkHost() error {
	if !strings.Contains(c.r.Pattern, "{host}") {
		return nil
	}
	return provider.CheckHostName(c.r.PathValue("host"))
}

// hostFilter returns the parameter `host` of a list; empty: any host. It returns fault.Invalid (400) for a name that is
// not valid.
func hostFilter(q url.Values) (string, error) {
	name := q.Get("host")
	if name == "" {
		return "", nil
	}
	return name, provider.CheckHostName(name)
}

// setVersionHeaders sets the microversion of the response, and Vary, because the response depends on it.
func (c *call) setVersionHeaders() {
	h := c.w.Header()
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
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return status(http.StatusMethodNotAllowed, fault.NotFound,
		"method %s is not allowed on %s; the header Allow lists the allowed methods", c.r.Method, c.r.URL.Path)
}

func unknownPath(c *call) error {
	return fault.New(fault.NotFound, "", "there is nothing at %s", c.r.URL.Path)
}

// admin returns a handler that requires the role admin.
func admin(do handler) handler {
	return func(c *call) error {
		if !c.who.IsAdmin() {
			return fault.New(fault.Forbidden, "", "%s %s needs the role admin, which %s does not have",
				c.r.Method, c.r.URL.Path, c.who.User)
		}
		return do(c)
	}
}

// service returns a handler that requires the role service or admin.
func service(do handler) handler {
	return func(c *call) error {
		if !c.who.IsAdmin() && !c.who.Has("service") {
			return fault.New(fault.Forbidden, "", "%s %s needs the role service or admin, and %s has neither",
				c.r.Method, c.r.URL.Path, c.who.User)
		}
		return do(c)
	}
}

// writeJSON writes a response with a body.
func (c *call) writeJSON(status int, body any) error {
	rest.WriteJSON(c.w, status, body)
	return nil
}

// writeStatus writes a response without a body.
func (c *call) writeStatus(status int) error {
	c.w.WriteHeader(status)
	return nil
}

// The maximum size of a request body, in bytes. The report of a large host has thousands of devices.
const (
	maxBody   = 1 << 20
	maxReport = rest.MaxBody

	bodyBudget = 2 * maxReport // of all bodies that are read and handled at the same time
)

// read decodes the request's body, JSON of at most limit bytes. Its faults have the status 400, 408, 413, 415 or 503.
func (c *call) read(limit int64, into any) error {
	if ct := c.r.Header.Get("Content-Type"); ct != "" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" {
			return status(http.StatusUnsupportedMediaType, fault.Invalid,
				"the body has type %q; send application/json", ct)
		}
	}
	data, release, err := c.budget.Read(c.w, c.r, limit)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		defer release()
	case large:
		return status(http.StatusRequestEntityTooLarge, fault.Invalid, "the body is larger than %d bytes", limit)
	case errors.Is(err, rest.ErrSlowBody):
		return status(http.StatusRequestTimeout, fault.Invalid, "%w", err)
	case fault.Is(err, fault.Unavailable):
		return err
	default:
		return fault.New(fault.Invalid, "", "the body is incomplete: %w", err)
	}
	c.renewDeadline()
	if len(data) == 0 {
		return fault.New(fault.Invalid, "", "Malformed request body: it is empty; send JSON")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.New(fault.Invalid, "", "Malformed request body: %w", err)
	}
	return nil
}

// renewDeadline starts the time limit of the call again, because the time to receive its body does not count.
func (c *call) renewDeadline() {
	ctx, cancel := rest.Renew(c.r.Context())
	c.r, c.end = c.r.WithContext(ctx), cancel
}

// maxLimit is the maximum length of a page of a list.
const maxLimit = 1000

// readPage reads limit and marker.
func (c *call) readPage(q url.Values) (limit int, marker string, err error) {
	limit = maxLimit
	if text := q.Get("limit"); q.Has("limit") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, "", fault.New(fault.Invalid, "", "limit must be a non-negative integer; it is %q", text)
		}
		limit = min(n, maxLimit)
	}
	return limit, q.Get("marker"), nil
}

// statusError is an error whose HTTP status does not follow from its Kind.
type statusError struct {
	code int
	error
}

// Unwrap returns the fault.
func (e *statusError) Unwrap() error { return e.error }

func status(code int, kind fault.Kind, format string, args ...any) error {
	return &statusError{code, fault.New(kind, "", format, args...)}
}

func unauthorized(err error) error {
	if fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Invalid) {
		return &statusError{http.StatusUnauthorized, err}
	}
	return err
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.code
	}
	if fault.CodeOf(err) == compute.NotServed {
		return http.StatusNotAcceptable
	}
	return rest.StatusOfKind(fault.KindOf(err))
}

// errorKey returns the key of the Compute API's error body for a status.
func errorKey(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "itemNotFound"
	case http.StatusMethodNotAllowed:
		return "badMethod"
	case http.StatusRequestTimeout:
		return "requestTimeout"
	case http.StatusConflict:
		return "conflictingRequest"
	case http.StatusRequestEntityTooLarge:
		return "overLimit"
	case http.StatusUnsupportedMediaType:
		return "badMediaType"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	}
	return "computeFault"
}

// writeFault writes the response for an error. An internal error is logged in full; the client receives only the id of
// the request.
func (s *server) writeFault(c *call, err error) {
	code, message := statusOf(err), fault.TextOf(err)
	timeUp := errors.Is(err, context.DeadlineExceeded) && errors.Is(c.r.Context().Err(), context.DeadlineExceeded)
	if timeUp && fault.CodeOf(err) == "" {
		code, message = http.StatusServiceUnavailable, fault.TextOf(context.Cause(c.r.Context()))
	}
	id := c.w.Header().Get("X-Compute-Request-Id")
	if code >= http.StatusInternalServerError && !errors.Is(c.r.Context().Err(), context.Canceled) {
		s.Log.Error("request failed", "method", c.r.Method, "path", c.r.URL.Path, "request", id, "error", err)
	}
	if code == http.StatusInternalServerError {
		message = internalError(id)
	}
	writeError(c.w, code, message)
}

func internalError(request string) string {
	return "Internal error; the log of Berth has the reason under " + request + "."
}

func writeError(w http.ResponseWriter, code int, message string) {
	rest.WriteJSON(w, code, map[string]any{errorKey(code): map[string]any{"code": code, "message": message}})
}

// responseWriter records whether the response has started.
type responseWriter struct {
	http.ResponseWriter
	started bool
}

// WriteHeader records that the response has started.
func (w *responseWriter) WriteHeader(code int) {
	w.started = true
	w.ResponseWriter.WriteHeader(code)
}

// Write records that the response has started.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.started = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recovered ends a request whose handler panicked: with a 500, or by closing the connection if the response has
// started.
func (s *server) recovered(w *responseWriter, r *http.Request, id string) {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		s.Log.Error("request panicked", "method", r.Method, "path", r.URL.Path, "request", id,
			"panic", p, "stack", string(debug.Stack()))
	}
	if w.started || p == http.ErrAbortHandler {
		panic(http.ErrAbortHandler)
	}
	writeError(w, http.StatusInternalServerError, internalError(id))
}

// projectKey is the context key of the project id that withoutProject has removed from the path.
type projectKey struct{}

// withoutProject changes /v2.1/{project_id}/servers/… to /v2.1/servers/…: until 2.18 the API has the project in its
// paths.
func withoutProject(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v2.1/")
	project, tail, two := strings.Cut(rest, "/")
	resource, _, _ := strings.Cut(tail, "/")
	if !ok || !two || isResource(project) || !isResource(resource) {
		return r
	}
	short, err := r.URL.Parse("/v2.1/" + tail)
	if err != nil {
		return r
	}
	if project, err = url.PathUnescape(project); err != nil {
		return r
	}
	short.RawQuery = r.URL.RawQuery
	r = r.Clone(context.WithValue(r.Context(), projectKey{}, project))
	r.URL = short
	return r
}

func isResource(segment string) bool {
	return slices.Contains([]string{"servers", "flavors", "os-migrations", "os-services"}, segment)
}
