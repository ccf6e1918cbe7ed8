package trace

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"
)

// Handler returns a handler that gives each request to h a span: a child of the client's span if the request has a
// valid traceparent, or the first span of a new trace if there is an exporter. Without both, h serves the request as it
// is. exporter may be nil.
func Handler(h http.Handler, exporter *Exporter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parent, state, traced := parentOf(r.Header)
		if !traced && exporter == nil {
			h.ServeHTTP(w, r)
			return
		}
		caller := &span{Context: parent, state: state}
		if exporter != nil {
			caller.export = exporter.add
		}
		s := caller.child()
		if !traced {
			_, _ = rand.Read(s.TraceID[:]) // never fails
			s.parent, s.Sampled = [8]byte{}, true
		}
		r = r.WithContext(context.WithValue(r.Context(), spanKey{}, s))
		if !s.recorded() {
			h.ServeHTTP(w, r)
			return
		}
		s.server, s.name, s.start = true, r.Method, time.Now()
		out := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		s.attributes = []attribute{{key: "http.request.method", text: r.Method}, {key: "url.path", text: r.URL.Path}}
		defer func() { s.finish(out.status, http.StatusInternalServerError) }() // also if the handler panics
		h.ServeHTTP(out, r)
	})
}

// HidePath replaces the path in the span of a request by its route: the path has a secret.
func HidePath(ctx context.Context, route string) {
	s := spanOf(ctx)
	if s == nil {
		return
	}
	for i := range s.attributes {
		if s.attributes[i].key == "url.path" {
			s.attributes[i].text = route
		}
	}
}

// Call adds the trace of ctx to a request for another service. The caller calls done with the status of the answer, or
// with 0 if there is none. Without a trace in ctx, Call does nothing.
func Call(ctx context.Context, r *http.Request) (done func(status int)) {
	s := spanOf(ctx)
	if s == nil {
		return func(int) {}
	}
	done = func(int) {}
	if s.recorded() {
		s = s.child()
		s.name, s.start = r.Method, time.Now()
		s.attributes = []attribute{{key: "http.request.method", text: r.Method},
			{key: "server.address", text: r.URL.Hostname()}, {key: "url.path", text: r.URL.Path}}
		done = func(status int) {
			if status == 0 {
				s.end, s.failed = time.Now(), true
				s.export(s)
				return
			}
			s.finish(status, http.StatusBadRequest)
		}
	}
	r.Header.Set(parentHeader, s.String())
	if s.state != "" {
		r.Header.Set(stateHeader, s.state)
	}
	return done
}

// statusWriter records the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if !w.wrote && status >= http.StatusOK { // a status below 200 precedes the answer
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Flush implements http.Flusher.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
