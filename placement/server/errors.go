package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
)

// statusError is an error with an HTTP status that no kind of fault has.
type statusError struct {
	status           int
	detail           string
	doc              any  // the whole body of the answer; nil: an ErrorsDoc
	withVersionRange bool // the body includes the supported microversions
}

// Error returns the detail of the answer.
func (r *statusError) Error() string { return r.detail }

func newStatusError(code int, format string, args ...any) error {
	return &statusError{status: code, detail: fmt.Sprintf(format, args...)}
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	if r, ok := errors.AsType[*statusError](err); ok {
		return r.status
	}
	return rest.StatusOfKind(fault.KindOf(err))
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
