package shadow

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/openberth/berth/placement/shadow/difference"
)

const (
	idleTimeout = 4 * time.Second // of connections to the original; that of Apache is five seconds
	dialTimeout = 10 * time.Second
	copyBuffer  = 32 << 10
	maxCaptured = 4 << 20  // bytes of an answer that is compared
	maxWaiting  = 64 << 20 // bytes of all answers that wait to be compared
)

// connections are the connections to the original. Reads share connections that are kept: a read on a connection that
// the original closes at this moment is repeated. A write cannot be repeated, so each has a connection of its own. An
// original in uwsgi closes each connection after its answer and does not announce it.
type connections struct{ kept, single *http.Transport }

func newConnections() connections {
	c := connections{newTransport(), newTransport()}
	c.single.DisableKeepAlives = true
	c.single.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(0)} // resumed sessions need one round trip less
	return c
}

// RoundTrip implements http.RoundTripper.
func (c connections) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return c.kept.RoundTrip(r)
	}
	return c.single.RoundTrip(r)
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, DisableCompression: true,
		MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: idleTimeout, ExpectContinueTimeout: time.Second}
}

// forwardedHeaders are the headers that httputil.ReverseProxy removes and the original must get as they came.
var forwardedHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// forwarder sends requests to the original, and its answers to the clients, both unchanged.
type forwarder struct {
	proxy   *httputil.ReverseProxy
	log     *slog.Logger
	failing atomic.Bool // the last request did not reach the original
}

// newForwarder returns a forwarder. capture receives each answer before its body is sent.
func newForwarder(to *url.URL, transport http.RoundTripper, log *slog.Logger, capture func(*http.Response)) *forwarder {
	f := &forwarder{log: log}
	f.proxy = &httputil.ReverseProxy{
		Transport:  transport,
		BufferPool: &buffers{},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			for _, name := range forwardedHeaders {
				if values, has := r.In.Header[name]; has {
					r.Out.Header[name] = values
				}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if f.failing.CompareAndSwap(true, false) {
				log.Info("original placement answers again")
			}
			capture(r)
			return nil
		},
		ErrorHandler: f.fail,
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelDebug), // a client that left
	}
	return f
}

// fail answers a request that did not reach the original.
func (f *forwarder) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil && f.failing.CompareAndSwap(false, true) {
		f.log.Error("original placement does not answer", "error", err)
	}
	status, detail := http.StatusBadGateway, "The original Placement does not answer: "+reasonOf(err)
	text, _ := json.Marshal(map[string]any{"errors": []map[string]any{ // a document of texts and numbers
		{"status": status, "title": http.StatusText(status), "detail": detail, "code": "placement.undefined_code"}}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has left
}

// reasonOf returns the kind of an error. The error itself may have names and addresses that are not for clients.
func reasonOf(err error) string {
	is := func(numbers ...error) bool {
		return slices.ContainsFunc(numbers, func(number error) bool { return errors.Is(err, number) })
	}
	_, noName := errors.AsType[*net.DNSError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, noTrust := errors.AsType[*tls.CertificateVerificationError](err)
	failed, isNet := errors.AsType[net.Error](err)
	switch {
	case is(context.Canceled):
		return "the client has left"
	case noName:
		return "its name cannot be resolved"
	case noTrust:
		return "its certificate is not valid"
	case noTLS:
		return "it does not use TLS"
	case isNet && failed.Timeout():
		return "it takes too long"
	case is(syscall.ECONNREFUSED):
		return "it refuses connections"
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH):
		return "there is no route to it"
	case is(syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF):
		return "it closed the connection"
	default:
		return "the connection failed"
	}
}

// buffers is a pool of buffers for bodies.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if one, ok := b.pool.Get().(*[]byte); ok {
		return *one
	}
	return make([]byte, copyBuffer)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(one []byte) { b.pool.Put(&one) }

// captured is the body of an answer that is kept while the client receives it.
type captured struct {
	io.ReadCloser
	answer  difference.Answer
	waiting *atomic.Int64                            // bytes of all captured answers
	done    func(a difference.Answer, failed string) // called once; failed is why the answer was not captured
	failed  string
}

// Read implements io.Reader. It never waits for anything but the original.
func (c *captured) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.keep(p[:n])
	if err == io.EOF {
		c.finish("")
	}
	return n, err
}

// keep appends bytes to the answer, unless it becomes too large.
func (c *captured) keep(part []byte) {
	switch size := int64(len(part)); {
	case c.failed != "" || c.done == nil:
	case len(c.answer.Body)+len(part) > maxCaptured:
		c.drop(tooLarge)
	case c.waiting.Add(size) > maxWaiting:
		c.waiting.Add(-size)
		c.drop(overloaded)
	default:
		c.answer.Body = append(c.answer.Body, part...)
	}
}

// drop forgets what was kept.
func (c *captured) drop(reason string) {
	c.waiting.Add(-int64(len(c.answer.Body)))
	c.answer.Body, c.failed = nil, reason
}

func (c *captured) finish(failed string) {
	if c.done == nil {
		return
	}
	if failed != "" && c.failed == "" {
		c.drop(failed)
	}
	done := c.done
	c.done = nil
	done(c.answer, c.failed)
}

// Close implements io.Closer. A body that is closed before its end was not sent: the client or the original has left.
func (c *captured) Close() error {
	c.finish(incomplete)
	return c.ReadCloser.Close()
}

// isIdentity reports whether an answer is sent without a content coding.
func isIdentity(h http.Header) bool {
	coding := strings.TrimSpace(h.Get("Content-Encoding"))
	return coding == "" || strings.EqualFold(coding, "identity")
}
