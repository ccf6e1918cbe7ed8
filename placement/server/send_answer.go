package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
)

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

// fail answers with an error. An error of the service (5xx) is logged in full, and the client receives only the request
// id. logged means that the caller has logged it. After the answer has begun fail panics with http.ErrAbortHandler.
func (c *call) fail(err error, logged bool) {
	if c.status != 0 { // the client recognizes the incomplete answer by the closed connection
		if c.clientGone = !logged; logged {
			c.status = http.StatusInternalServerError
		}
		panic(http.ErrAbortHandler)
	}
	code := statusOf(err)
	timeUp := errors.Is(err, context.DeadlineExceeded) && errors.Is(c.ctx().Err(), context.DeadlineExceeded)
	if timeUp {
		code = http.StatusServiceUnavailable
	}
	if c.clientGone = c.ctx().Err() != nil && errors.Is(err, context.Canceled); c.clientGone {
		code = http.StatusServiceUnavailable
	}
	entry := api.ErrorDoc{Status: code, Title: http.StatusText(code), Detail: fault.TextOf(err), RequestID: c.id}
	if code >= http.StatusInternalServerError {
		if !logged && !c.clientGone {
			c.server.log.Error("request failed", "request_id", c.id, "method", c.r.Method,
				"uri", c.r.URL.RequestURI(), "error", err)
		}
		entry.Detail = "The service failed; see its log for " + c.id + "."
		if timeUp {
			entry.Detail = fault.TextOf(context.Cause(c.ctx())) + ". See the log for " + c.id + "."
		}
		if fault.CodeOf(err) == store.CodeUnknownOutcome {
			entry.Detail = "The connection to the database was lost, or the time was up, at the last moment. " +
				"It is unknown whether the request took effect: read the resource before you repeat it. " +
				"See the log for " + c.id + "."
		}
	}
	if c.negotiated && c.version >= sinceErrorCodes {
		entry.Code = fault.CodeOf(err)
		if entry.Code == "" {
			entry.Code = api.CodeUndefined
		}
	}
	var body any = api.ErrorsDoc{Errors: []api.ErrorDoc{entry}}
	if r, ok := errors.AsType[*statusError](err); ok {
		if r.withVersionRange {
			entry.MinVersion, entry.MaxVersion = api.Oldest.String(), api.Latest.String()
			body = api.ErrorsDoc{Errors: []api.ErrorDoc{entry}}
		}
		if r.doc != nil {
			body = r.doc
		}
	}
	if code == http.StatusConflict {
		c.server.metrics.Conflict(cmp.Or(fault.CodeOf(err), api.CodeUndefined))
	}
	h := c.w.Header()
	for _, name := range []string{"Last-Modified", "Cache-Control", "Location"} {
		h.Del(name)
	}
	if err := c.sendJSON(code, body); err != nil {
		c.sendStatus(code)
	}
}

// badVersion returns status 400 for a microversion that is not valid, and 406 for one that is not supported.
func (c *call) badVersion(err error) error {
	if fault.CodeOf(err) != api.CodeVersion {
		return newStatusError(http.StatusBadRequest, "%s", fault.TextOf(err))
	}
	return &statusError{status: http.StatusNotAcceptable, detail: fault.TextOf(err), withVersionRange: true}
}

// unauthorized returns status 401 for a request without a valid caller, and other errors unchanged. The body is that of
// OpenStack's noauth2 or, with Options.Challenge, that of its Keystone middleware. Neither is an ErrorsDoc.
func (c *call) unauthorized(err error) error {
	if !fault.Is(err, fault.Forbidden) {
		return err
	}
	text := fault.TextOf(err)
	if c.server.opts.Challenge != "" {
		c.w.Header().Set("Www-Authenticate", c.server.opts.Challenge)
		return &statusError{status: http.StatusUnauthorized, detail: text,
			doc: object{"error": object{"code": http.StatusUnauthorized, "title": "Unauthorized", "message": text}}}
	}
	return &statusError{status: http.StatusUnauthorized, detail: text,
		doc: object{"message": text, "code": "401 Unauthorized", "title": "Unauthorized"}}
}
