package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// InMemory returns a client that calls a handler in the same process. It behaves as over a socket: the headers arrive
// first, the body as it is written, and cancellation works in both directions.
func InMemory(h http.Handler) *http.Client { return &http.Client{Transport: memory{h}} }

// inProcess is the RemoteAddr of requests of InMemory. No TCP connection comes from port 0.
const inProcess = "127.0.0.1:0"

// InProcess reports whether a request was sent by InMemory, so by another part of the same process.
func InProcess(r *http.Request) bool { return r.RemoteAddr == inProcess }

// fromKey is the key of the address of From.
type fromKey struct{}

// From returns a context whose requests by InMemory come from an address, as RemoteAddr has it: a part of the process
// that acts for a client lets the handler see that client, for limits of each address.
func From(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, fromKey{}, address)
}

type memory struct{ handler http.Handler }

// RoundTrip runs the handler in its own goroutine. The body of the answer is a pipe, so that the client can read a
// stream while it is written. If the handler panics, reading the body fails, as if a server closed the connection.
func (m memory) RoundTrip(req *http.Request) (*http.Response, error) {
	inner := req.Clone(req.Context())
	inner.RequestURI = req.URL.RequestURI()
	inner.RemoteAddr = inProcess
	if address, is := req.Context().Value(fromKey{}).(string); is {
		inner.RemoteAddr = address
	}
	if inner.Host == "" {
		inner.Host = req.URL.Host
	}
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	context.AfterFunc(req.Context(), func() { writer.CloseWithError(req.Context().Err()) })
	w := &memoryWriter{header: http.Header{}, pipe: writer, ready: make(chan struct{})}
	go w.serve(m.handler, inner)
	select {
	case <-w.ready:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	length := int64(-1)
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		length = n
	}
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: reader, ContentLength: length, Request: req,
	}, nil
}

type memoryWriter struct {
	header http.Header
	pipe   *io.PipeWriter
	once   sync.Once
	ready  chan struct{} // closed once status and sent are set
	status int
	sent   http.Header
}

func (w *memoryWriter) serve(h http.Handler, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			w.WriteHeader(http.StatusOK)
			w.pipe.CloseWithError(r.Context().Err()) // nil, the normal case, ends the body
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		w.pipe.CloseWithError(fmt.Errorf("the handler of %s %s panicked: %v", r.Method, r.URL.Path, p))
	}()
	h.ServeHTTP(w, r)
}

// Header returns the headers that are sent with the first write.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader sends the headers; only the first call counts. The names arrive in their canonical form.
func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, make(http.Header, len(w.header))
		for name, values := range w.header {
			name = http.CanonicalHeaderKey(name)
			w.sent[name] = append(w.sent[name], values...)
		}
		close(w.ready)
	})
}

// Write passes the bytes to the reader and returns when they have been read.
func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(bytes.Clone(p))
}

// Flush sends the headers. The pipe does not buffer.
func (w *memoryWriter) Flush() { w.WriteHeader(http.StatusOK) }
