package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// call is one request on its way through the server.
type call struct {
	server     *Server
	w          http.ResponseWriter
	r          *http.Request
	id         string // openstack-request-id
	began      time.Time
	reads      uint64 // live.reads when it began
	caller     identity.Identity
	version    api.Version
	negotiated bool              // version is what the client asked for
	values     map[string]string // of the path's variables
	route      *route            // nil: the path is none
	body       []byte            // the request's body, once it is read
	status     int               // as sent; 0: nothing was sent
	size       int64             // of the body
	scheme     string            // as a proxy says; empty: ours
	prefix     string            // of our paths, as a proxy says
	holdsSlot       bool              // it has one of the searches' turns
	cleanups       []func()          // what the end of the call gives back
	clientGone       bool              // the client went away, or the server stops, before there was an answer
}

// doc is an answer whose shape depends on the microversion.
type object = map[string]any

// ctx is the context of the request. Once the answer has begun it has no time limit any more: the client may take it
// as slowly as it may.
func (c *call) ctx() context.Context {
	if c.status != 0 {
		return rest.Unlimited(c.r.Context())
	}
	return c.r.Context()
}

// provider is the provider that the path names.
func (c *call) provider() provider.ID { return provider.ID(c.values["uuid"]) }

// query reads the query string.
func (c *call) query() (url.Values, error) {
	q := parseQuery(c.r.URL.RawQuery)
	for key, values := range q {
		for _, text := range append(values, key) {
			if !utf8.ValidString(text) {
				return nil, fault.New(fault.Invalid, "placement.server", "Invalid query string parameters: %q is not UTF-8", text)
			}
		}
	}
	return q, nil
}

// parseQuery is url.ParseQuery as lenient as the original: a % that begins no byte stands for itself, and a semicolon separates as & does.
func parseQuery(raw string) url.Values {
	q := url.Values{}
	for pair := range strings.FieldsFuncSeq(raw, separator) {
		key, value, _ := strings.Cut(pair, "=")
		key = unescape(key)
		q[key] = append(q[key], unescape(value))
	}
	return q
}

func separator(r rune) bool { return r == '&' || r == ';' }

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	var out strings.Builder
	for len(text) > 0 {
		n := 1
		if text[0] == '%' && len(text) >= 3 {
			n = 3
		}
		plain, err := url.QueryUnescape(text[:n])
		if err != nil {
			plain, n = "%", 1
		}
		out.WriteString(plain)
		text = text[n:]
	}
	return out.String()
}

// read reads the request's body into a document.
func (c *call) read(body api.Body, into any) error {
	limit := c.server.opts.MaxBody
	tooLarge := newStatusError(http.StatusRequestEntityTooLarge, "the request body is over %d bytes", limit)
	if c.r.ContentLength > limit { // before any of it is read: it would take memory for nothing
		return tooLarge
	}
	data, release, err := c.server.bodyBudget.Read(c.w, c.r, limit)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		c.cleanups = append(c.cleanups, release) // what is made of the body is needed until the end of the call
	case large:
		return tooLarge
	case errors.Is(err, rest.ErrSlowBody):
		return newStatusError(http.StatusRequestTimeout, "%s", err)
	case fault.Is(err, fault.Unavailable):
		return err
	default:
		return fault.New(fault.Invalid, "placement.server", "the request body broke off: %w", err)
	}
	c.body = data
	ctx, cancel := rest.Renew(c.r.Context()) // the time of the client does not count
	c.cleanups = append(c.cleanups, cancel)
	c.r = c.r.WithContext(ctx)
	return c.server.bodies.Read(body, c.version, data, into)
}

// close gives back what the call holds.
func (c *call) close() {
	c.release()
	for _, done := range c.cleanups {
		done()
	}
}

// modified sets the headers that say how old an answer is, in microversions that have them. The zero time is now.
func (c *call) setModified(at time.Time) {
	if c.version < sinceCacheHeaders {
		return
	}
	if at.IsZero() {
		at = c.server.now()
	}
	c.w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	c.w.Header().Set("Cache-Control", "no-cache")
}

// location names what was made. The original gives a whole URL, of the host as the client calls it.
func (c *call) setLocation(path string) {
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	scheme = cmp.Or(c.scheme, scheme)
	c.w.Header().Set("Location", scheme+"://"+withoutDefaultPort(scheme, c.r.Host)+c.prefix+path)
}

// json answers with a document.
func (c *call) sendJSON(status int, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return fault.Wrap(fault.Internal, "placement.server", err)
	}
	c.send(status, data)
	return nil
}

// none answers without a body.
func (c *call) sendStatus(status int) error {
	c.send(status, nil)
	return nil
}

// send writes a whole answer.
func (c *call) send(status int, body []byte) {
	if len(body) > 0 {
		c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if c.begin(status, body != nil) {
		// The client may have gone; there is nobody left to tell.
		_ = c.write(body)
	}
}

// begin sends the head of an answer. It says whether the body is to follow.
func (c *call) begin(status int, json bool) bool {
	h := c.w.Header()
	if json {
		h.Set("Content-Type", "application/json")
	}
	if c.negotiated {
		h.Set(api.VersionHeader, c.version.Header())
		h.Set("Vary", "openstack-api-version")
	}
	status, replaced := c.server.cors.Apply(c.r, status, h)
	h.Set("Openstack-Request-Id", c.id)
	h.Set("X-Openstack-Request-Id", c.id)
	c.status = status
	c.w.WriteHeader(status)
	return !replaced
}

// write sends a part of the body.
func (c *call) write(part []byte) error {
	if len(part) == 0 {
		return nil
	}
	n, err := c.w.Write(part)
	c.size += int64(n)
	return err
}

// report counts and logs the request once it is answered.
func (c *call) report() {
	took, path := c.server.now().Sub(c.began), ""
	if c.route != nil {
		path = c.route.path
	}
	status := c.status
	if c.clientGone {
		status = statusClientGone
	}
	c.server.metrics.Request(path, c.r.Method, status, took, c.size)
	version := "-"
	if c.negotiated {
		version = c.version.String()
	}
	attrs := []slog.Attr{
		slog.String("request_id", c.id), slog.String("method", c.r.Method), slog.String("route", path), slog.String("uri", clip(c.r.URL.RequestURI())),
		slog.Int("status", status), slog.Int64("len", c.size), slog.String("microversion", version),
		slog.String("user", c.caller.User), slog.String("project", c.caller.Project), slog.String("from", c.r.RemoteAddr), slog.Duration("took", took),
	}
	if global := c.r.Header.Get("X-Openstack-Request-Id"); globalID.MatchString(global) {
		attrs = append(attrs, slog.String("global_request_id", global))
	}
	c.server.log.LogAttrs(context.WithoutCancel(c.ctx()), slog.LevelInfo, "request", attrs...)
}

// clientLeft is the status in logs and metrics of a request that nobody waits for any more.
const statusClientGone = 499

// clip keeps a line of the log readable.
func clip(text string) string {
	const longest = 1000
	if len(text) <= longest {
		return text
	}
	return text[:longest] + "…"
}

// globalID is what a client may call its own request, so that it is found in the logs of all services that it led to.
var globalID = regexp.MustCompile(`^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
