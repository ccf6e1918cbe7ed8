package server

import (
	"context"
	"log/slog"
	"regexp"
)

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
	level := slog.LevelInfo
	if c.inProcess {
		level = slog.LevelDebug // of compute or of the agent in the same process
	}
	c.server.log.LogAttrs(context.WithoutCancel(c.ctx()), level, "request", attrs...)
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
