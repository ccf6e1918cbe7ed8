package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

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

// limited wraps a handler that searches, or reads much: it runs while it holds a slot of Server.searches.
func limited(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		done := c.server.metrics.Wait()
		err := c.server.searches.acquire(c.ctx())
		done()
		if err != nil {
			return err
		}
		c.holdsSlot = true
		defer c.release()
		return handle(c)
	}
}

// release returns the slot of the call, if it holds one. It is called before waiting for the client.
func (c *call) release() {
	if c.holdsSlot {
		c.holdsSlot = false
		c.server.searches.release()
	}
}

// reacquire waits for a slot again.
func (c *call) reacquire() error {
	err := c.server.searches.acquire(c.ctx())
	c.holdsSlot = err == nil
	return err
}
