package trace

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"
)

// span is the work of one service on one request (server), or one call to another service (client).
type span struct {
	Context
	parent   [8]byte // zero: the first span of its trace
	state    string  // tracestate, passed on unchanged
	exporter *Exporter

	server     bool
	name       string
	start, end time.Time
	attributes []attribute
	failed     bool
}

// attribute has a text, or a number if the text is empty.
type attribute struct {
	key, text string
	number    int
}

type spanKey struct{}

func spanOf(ctx context.Context) *span {
	s, _ := ctx.Value(spanKey{}).(*span)
	return s
}

// Carry returns ctx with the span of another context, for work that a request causes and that outlives it.
func Carry(ctx, from context.Context) context.Context {
	if s := spanOf(from); s != nil {
		return context.WithValue(ctx, spanKey{}, s)
	}
	return ctx
}

// child returns a new span of the same trace.
func (s *span) child() *span {
	c := &span{Context: s.Context, parent: s.SpanID, state: s.state, exporter: s.exporter}
	_, _ = rand.Read(c.SpanID[:]) // never fails
	return c
}

// recorded reports whether the span is exported.
func (s *span) recorded() bool { return s != nil && s.exporter != nil && s.Sampled }

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
		s := (&span{Context: parent, state: state, exporter: exporter}).child()
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

// finish records the status of the answer and exports the span. The span has failed from this status on.
func (s *span) finish(status, failure int) {
	s.end, s.failed = time.Now(), status >= failure
	s.attributes = append(s.attributes, attribute{key: "http.response.status_code", number: status})
	s.exporter.add(s)
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
				s.exporter.add(s)
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
