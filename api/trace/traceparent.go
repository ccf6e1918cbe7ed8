// Package trace accepts W3C trace contexts from clients, passes them on in calls to other services and to the log, and
// exports spans by OTLP.
//
// Without a collector and without a traceparent header it does nothing for a request.
package trace

import (
	"encoding/hex"
	"net/http"
	"strings"
)

// The headers of W3C Trace Context.
const (
	parentHeader = "Traceparent"
	stateHeader  = "Tracestate"
)

// maxState is the length in bytes of the longest tracestate that is passed on.
const maxState = 512

// Context is the content of a traceparent header: a span, and whether its trace is recorded.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	Sampled bool
}

// Parse reads a traceparent header. ok is false if it is not valid; a newer version may have more fields at its end.
func Parse(text string) (c Context, ok bool) {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], text[:2]}, {c.TraceID[:], text[3:35]}, {c.SpanID[:], text[36:52]}, {flags[:], text[53:55]}} {
		if strings.ToLower(part.text) != part.text {
			return Context{}, false
		}
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return Context{}, false
		}
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(text) != length, len(text) > length && text[length] != '-',
		c.TraceID == [16]byte{}, c.SpanID == [8]byte{}:
		return Context{}, false
	}
	c.Sampled = flags[0]&1 == 1
	return c, true
}

// String returns the traceparent header.
func (c Context) String() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.TraceID[:]) + "-" + hex.EncodeToString(c.SpanID[:]) + "-" + flags
}

// parentOf returns the caller's span and tracestate. ok is false without exactly one valid traceparent.
func parentOf(h http.Header) (c Context, state string, ok bool) {
	values := h[parentHeader]
	if len(values) != 1 {
		return Context{}, "", false
	}
	if c, ok = Parse(values[0]); !ok {
		return Context{}, "", false
	}
	if state = strings.Join(h[stateHeader], ","); len(state) > maxState {
		state = ""
	}
	return c, state, true
}
