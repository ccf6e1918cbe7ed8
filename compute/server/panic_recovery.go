package server

import (
	"net/http"
	"runtime/debug"
)

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
