package trace

import (
	"context"
	"crypto/rand"
	"time"
)

// span is the work of one service on one request (server), or one call to another service (client).
type span struct {
	Context
	parent [8]byte     // zero: the first span of its trace
	state  string      // tracestate, passed on unchanged
	export func(*span) // nil: spans are not exported

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
	c := &span{Context: s.Context, parent: s.SpanID, state: s.state, export: s.export}
	_, _ = rand.Read(c.SpanID[:]) // never fails
	return c
}

// recorded reports whether the span is exported.
func (s *span) recorded() bool { return s != nil && s.export != nil && s.Sampled }

// finish records the status of the answer and exports the span. The span has failed from this status on.
func (s *span) finish(status, failure int) {
	s.end, s.failed = time.Now(), status >= failure
	s.attributes = append(s.attributes, attribute{key: "http.response.status_code", number: status})
	s.export(s)
}
