// Package server is the HTTP server of compute: the Compute API of api/compute, and the host API of api/host.
//
// Handlers read requests, call the store and the conductor, and write responses; they decide nothing about servers.
// Each resource has its file. What all requests share is in http_routes.go (the table of paths), request_dispatch.go
// (the caller and the microversion), request_and_response.go (one request), request_body.go and error_responses.go;
// handler_dependencies.go declares what the handlers need, and the options of the server.
package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
)

// New returns the handler. It starts nothing.
func New(o Options) http.Handler {
	if o.Authenticate == nil {
		o.Authenticate = identity.NoAuth2
	}
	if o.Strategy == "" {
		o.Strategy = noAuth2
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = host.Heartbeat / 2
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	s := &server{Options: o, mux: http.NewServeMux(), budget: rest.NewBodyBudget(bodyBudget, maxReport)}
	for path, methods := range s.routes() {
		s.mux.Handle(path, s.endpoint(methods))
	}
	return s
}

// ServeHTTP gives the request an id, removes the project id from its path, and recovers from panics.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := "req-" + uuid.NewString()
	w.Header().Set("X-Compute-Request-Id", id)
	w.Header().Set("X-Openstack-Request-Id", id)
	out := &responseWriter{ResponseWriter: w}
	defer s.recovered(out, r, id)
	s.mux.ServeHTTP(out, withoutProject(r))
}
