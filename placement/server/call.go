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

// call is the state of one request.
type call struct {
	server     *Server
	w          http.ResponseWriter
	r          *http.Request
	id         string // openstack-request-id
	began      time.Time
	reads      uint64 // liveIndex.reads when the call began
	caller     identity.Identity
	version    api.Version
	negotiated bool              // version was read from the request
	values     map[string]string // of the variables in the path
	route      *route            // nil: there is no route for the path
	body       []byte            // the request body, after read
	status     int               // of the answer; 0: nothing has been sent
	size       int64             // of the answer's body in bytes, so far
	scheme     string            // from a proxy's headers; empty: that of the connection
	prefix     string            // of the API's paths, from a proxy's headers
	holdsSlot  bool              // the call holds a slot of Server.searches
	cleanups   []func()          // called at the end of the call
	clientGone bool              // the client disconnected, or the server stopped, before the answer was complete
}

// object is a JSON object whose members depend on the microversion.
type object = map[string]any

// ctx returns the context of the request. After the answer has begun it has no time limit, because a slow client may
// need any time to receive a large answer.
func (c *call) ctx() context.Context {
	if c.status != 0 {
		return rest.Unlimited(c.r.Context())
	}
	return c.r.Context()
}

// provider returns the UUID of the provider in the path.
func (c *call) provider() provider.ID { return provider.ID(c.values["uuid"]) }

// query parses the query string. It returns fault.Invalid if a key or a value is not UTF-8.
func (c *call) query() (url.Values, error) {
	q := parseQuery(c.r.URL.RawQuery)
	for key, values := range q {
		for _, text := range append(values, key) {
			if !utf8.ValidString(text) {
				return nil, fault.New(fault.Invalid, "placement.server",
					"Invalid query string parameters: %q is not UTF-8", text)
			}
		}
	}
	return q, nil
}

// parseQuery is url.ParseQuery with the leniency of the original: a % that does not begin an escaped byte is kept, and
// a semicolon is a separator as & is.
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

// read reads the request body, validates it against the schema and decodes it. It returns status 413 for a body over
// Options.MaxBody, 408 for one that arrives too slowly, and fault.Invalid for one that is not valid.
func (c *call) read(body api.Body, into any) error {
	limit := c.server.opts.MaxBody
	tooLarge := newStatusError(http.StatusRequestEntityTooLarge, "the request body is over %d bytes", limit)
	if c.r.ContentLength > limit { // refuse it before reading, which would waste memory
		return tooLarge
	}
	data, release, err := c.server.bodyBudget.Read(c.w, c.r, limit)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		c.cleanups = append(c.cleanups, release) // the decoded body is used until the end of the call
	case large:
		return tooLarge
	case errors.Is(err, rest.ErrSlowBody):
		return newStatusError(http.StatusRequestTimeout, "%s", err)
	case fault.Is(err, fault.Unavailable):
		return err
	default:
		return fault.New(fault.Invalid, "placement.server", "cannot read the request body: %w", err)
	}
	c.body = data
	ctx, cancel := rest.Renew(c.r.Context()) // the time that the client took does not count
	c.cleanups = append(c.cleanups, cancel)
	c.r = c.r.WithContext(ctx)
	return c.server.bodies.Read(body, c.version, data, into)
}

// close releases the resources of the call.
func (c *call) close() {
	c.release()
	for _, done := range c.cleanups {
		done()
	}
}

// setModified sets Last-Modified and Cache-Control, in microversions that have them. The zero time means now.
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

// setLocation sets the Location header to the created resource. As in the original it is an absolute URL with the host
// of the request.
func (c *call) setLocation(path string) {
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	scheme = cmp.Or(c.scheme, scheme)
	c.w.Header().Set("Location", scheme+"://"+withoutDefaultPort(scheme, c.r.Host)+c.prefix+path)
}

// sendJSON answers with a status and a JSON document.
func (c *call) sendJSON(status int, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return fault.Wrap(fault.Internal, "placement.server", err)
	}
	c.send(status, data)
	return nil
}

// sendStatus answers with a status and no body.
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
		// An error means that the client has disconnected.
		_ = c.write(body)
	}
}

// begin sends the status and the headers of an answer. It returns false if the body must not be sent, because a CORS
// preflight answer has replaced it.
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

// write sends the next bytes of the body.
func (c *call) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	n, err := c.w.Write(data)
	c.size += int64(n)
	return err
}

// report records the answered request in the metrics and the log.
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
		slog.String("request_id", c.id), slog.String("method", c.r.Method), slog.String("route", path),
		slog.String("uri", clip(c.r.URL.RequestURI())),
		slog.Int("status", status), slog.Int64("len", c.size), slog.String("microversion", version),
		slog.String("user", c.caller.User), slog.String("project", c.caller.Project),
		slog.String("from", c.r.RemoteAddr), slog.Duration("took", took),
	}
	if global := c.r.Header.Get("X-Openstack-Request-Id"); globalID.MatchString(global) {
		attrs = append(attrs, slog.String("global_request_id", global))
	}
	c.server.log.LogAttrs(context.WithoutCancel(c.ctx()), slog.LevelInfo, "request", attrs...)
}

// statusClientGone is the status in logs and metrics of a request whose client disconnected before the answer.
const statusClientGone = 499

// clip shortens a text for the log.
func clip(text string) string {
	const longest = 1000
	if len(text) <= longest {
		return text
	}
	return text[:longest] + "…"
}

// globalID matches a request id that the client has chosen. It is logged, so that one id finds the request in the logs
// of all services.
var globalID = regexp.MustCompile(`^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
