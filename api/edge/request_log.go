package edge

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/openberth/berth/api/rest"
)

// statusClientGone is the status in logs and metrics of a request whose client disconnected before the answer.
const statusClientGone = 499

// report records the answered request in the metrics and the log.
func (c *Call) report() {
	took, status := c.core.Now().Sub(c.began), c.out.status
	if c.clientGone {
		status = statusClientGone
	}
	c.core.metrics.Request(c.Route(), c.R.Method, status, took, c.out.size)
	c.audit(status)
	level := slog.LevelInfo
	if (c.Spec.Quiet || rest.InProcess(c.R)) && status < http.StatusBadRequest {
		level = slog.LevelDebug
	}
	ctx := context.WithoutCancel(c.R.Context())
	if !c.core.Log.Enabled(ctx, level) {
		return
	}
	version := "-"
	if c.Version != nil {
		version = c.Version.String()
	}
	attrs := []slog.Attr{
		slog.String("request_id", c.ID), slog.String("method", c.R.Method), slog.String("route", c.Route()),
		slog.String("uri", clip(c.loggedURI(), maxLogged)),
		slog.Int("status", status), slog.Int64("len", c.out.size), slog.String("microversion", version),
		slog.String("user", c.Who.User), slog.String("project", c.Who.Project),
		slog.String("from", c.R.RemoteAddr), slog.Duration("took", took),
	}
	if global := c.globalID(); global != "" {
		attrs = append(attrs, slog.String("global_request_id", global))
	}
	c.core.Log.LogAttrs(ctx, level, "request", attrs...)
}

// globalID returns the request id that the client has chosen, or "".
func (c *Call) globalID() string {
	if global := c.R.Header.Get("X-Openstack-Request-Id"); globalID.MatchString(global) {
		return global
	}
	return ""
}

// loggedURI returns the URI of the request as logs have it: without secrets.
func (c *Call) loggedURI() string {
	switch {
	case c.Spec.Secret:
		return c.Route()
	case c.Public(): // the query may have a token in place of an account
		path, _, _ := strings.Cut(c.uri, "?")
		return path
	}
	return c.uri
}

// maxLogged is the maximum of a text in the log, in bytes.
const maxLogged = 1000

// globalID matches a request id that the client has chosen. It is logged, so that one id finds the request in the logs
// of all services.
var globalID = regexp.MustCompile(`^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
