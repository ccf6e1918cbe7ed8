// Package edge is the HTTP stack that the APIs of all services share.
//
//	request ─▶ Server: id, proxy headers, route ─▶ checks of the API, in its order ─▶ handler ─▶ answer: CORS, id
//	               │                                          │ refusal            │ error
//	               │                                          └───── Refuse ───────┴─▶ Encode
//	               └─ /healthz, /metrics                                     at the end: metrics, request log
//
// An API declares its routes, the order of its checks, and how it encodes errors (type API). Most checks are methods of
// Call: CheckRequestLine, Authenticate, CheckRoute, CheckMethod, CheckSince, CheckMedia, Authorize. The others are
// functions of the API, such as the negotiation of a version, which differs between OpenStack's services. A check that
// fails returns a Refusal, to which the API gives the status and the text of its original.
//
// The API has a call type of its own, which embeds Call. Handlers receive it, write to Call.W and return an error.
//
// The files, from the bottom to the top: options, values, media_types, proxy_headers, metrics, health, json_object (the
// objects of requests), call, texts, checks, request_log, errors, failure, routes, server.
package edge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/fault"
)

// API declares an API. C is its call type. Only Authenticate, NewCall, Routes, Checks, Refuse and Encode must be set.
type API[C Caller] struct {
	Options                   // without an Enforcer only methods without a rule are allowed
	Bodies   *rest.BodyBudget // for Call.ReadBody
	Style    Style            // for Call.Object
	Database Database         // for Call.CheckDatabase and, without Health.Check, for /healthz; nil: none

	IDHeaders []string // the headers of an answer that have the request id
	Routes    []Route[C]
	HeadIsGet bool // HEAD calls the handler of GET, and Allow lists it
	Escaped   bool // a path is split at slashes before its escapes are decoded, so that a variable may contain a slash

	NewCall func() C
	Prepare func(C)                 // changes Call.R before the route is found; nil: nothing to change
	Checks  []func(C) error         // made before the handler, in this order, until one returns an error
	Refuse  func(C, *Refusal) error // returns the error for a refusal, usually one of StatusErrorf
	Encode  func(C, Failure)        // answers with an error
	Health  Health
}

// Server is the http.Handler of an API. It is safe for concurrent use.
type Server[C Caller] struct {
	api    API[C]
	core   *core
	table  table[C]
	scrape http.Handler
	health *health
}

// New returns the server of an API. It starts nothing.
func New[C Caller](a API[C]) *Server[C] {
	a.Options = a.WithDefaults(nil)
	if a.Metrics == nil {
		a.Metrics = NewMetrics("berth_")
	}
	if a.Health.Check == nil && a.Database != nil {
		a.Health.Check = func(ctx context.Context) (string, error) { return CheckDatabase(ctx, a.Database, nil) }
	}
	return &Server[C]{api: a, table: newTable(a.Routes, a.HeadIsGet), scrape: a.Metrics.Handler(),
		health: &health{Health: a.Health, log: a.Log, now: a.Now},
		core: &core{Options: a.Options, cors: cors.New(a.CORS), bodies: a.Bodies, style: &a.Style, metrics: a.Metrics,
			database: a.Database, idHeaders: a.IDHeaders}}
}

// ServeHTTP answers one request.
func (s *Server[C]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serveInternal(w, r) {
		return
	}
	c := s.api.NewCall()
	e := c.edge()
	e.begin(s.core, w, r, s.api.ProxyHeaders)
	defer e.end()
	s.core.metrics.Begin()
	defer s.core.metrics.End()
	defer e.report()
	defer func() {
		if p := recover(); p != nil {
			s.recovered(c, p)
		}
	}()
	if err := s.serve(c, e); err != nil {
		s.fail(c, err, false)
	}
}

// serve finds the route, makes the checks, and calls the handler.
func (s *Server[C]) serve(c C, e *Call) error {
	if s.api.Prepare != nil {
		s.api.Prepare(c)
	}
	handle := s.table.find(e, s.api.Escaped)
	if e.Spec.Secret {
		trace.HidePath(e.R.Context(), e.Route())
	}
	if s.core.Log.Enabled(e.R.Context(), slog.LevelDebug) {
		s.core.Log.Debug("request received", "request_id", e.ID, "method", e.R.Method, "uri", clip(e.loggedURI(), maxLogged),
			"from", e.R.RemoteAddr)
	}
	for _, check := range s.api.Checks {
		if err := check(c); err != nil {
			return err
		}
	}
	if err := e.checkTexts(); err != nil {
		return err
	}
	if handle == nil { // does not occur in an API that checks the route and the method
		return &Refusal{Reason: NoRoute}
	}
	if err := handle(c); err != nil {
		return err
	}
	if !e.Begun() {
		e.W.WriteHeader(http.StatusOK)
	}
	return nil
}

// serveInternal answers /healthz and /metrics, which need no authentication. It returns false for other paths.
func (s *Server[C]) serveInternal(w http.ResponseWriter, r *http.Request) bool {
	var answer http.HandlerFunc
	switch r.URL.Path {
	case "/healthz":
		answer = s.health.answer
	case "/metrics":
		answer = s.scrape.ServeHTTP
	default:
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return true
	}
	answer(w, r)
	return true
}

// fail answers with an error. An error of the service (5xx) is logged, except 501: what a service does not have is
// no error. After the answer has begun fail panics with http.ErrAbortHandler: the client recognizes the incomplete
// answer by the closed connection.
func (s *Server[C]) fail(c C, err error, panicked bool) {
	e := c.edge()
	if e.Begun() {
		if e.clientGone = !panicked; panicked {
			e.out.status = http.StatusInternalServerError
		}
		panic(http.ErrAbortHandler)
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		err = s.api.Refuse(c, refusal)
	}
	_, forClient := errors.AsType[*StatusError](err)
	f := Failure{Err: err, Status: StatusOf(err), ForClient: forClient}
	ended := e.R.Context().Err()
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ended, context.DeadlineExceeded) {
		f.TimeUp = context.Cause(e.R.Context())
	}
	e.clientGone = ended != nil && errors.Is(err, context.Canceled)
	if f.TimeUp != nil || e.clientGone {
		f.Status = http.StatusServiceUnavailable
	}
	ours := f.Status >= http.StatusInternalServerError && f.Status != http.StatusNotImplemented
	if ours && !panicked && !e.clientGone {
		s.core.Log.Error("request failed", "request_id", e.ID, "method", e.R.Method, "uri", e.loggedURI(), "error", err)
	}
	s.api.Encode(c, f)
}

// recovered ends a request whose handler panicked: with 500, or by closing the connection if the answer has begun.
func (s *Server[C]) recovered(c C, p any) {
	if p == http.ErrAbortHandler {
		panic(p)
	}
	e := c.edge()
	s.core.metrics.Panic()
	s.core.Log.Error("handler panicked", "request_id", e.ID, "method", e.R.Method, "uri", e.loggedURI(), "panic", p,
		"stack", string(debug.Stack()))
	s.fail(c, fault.New(fault.Internal, "unexpected"), true)
}
