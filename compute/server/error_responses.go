package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// statusError is an error whose HTTP status does not follow from its Kind.
type statusError struct {
	code int
	error
}

// Unwrap returns the fault.
func (e *statusError) Unwrap() error { return e.error }

func status(code int, kind fault.Kind, format string, args ...any) error {
	return &statusError{code, fault.New(kind, "", format, args...)}
}

func unauthorized(err error) error {
	if fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Invalid) {
		return &statusError{http.StatusUnauthorized, err}
	}
	return err
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.code
	}
	if fault.CodeOf(err) == compute.NotServed {
		return http.StatusNotAcceptable
	}
	return rest.StatusOfKind(fault.KindOf(err))
}

// errorKey returns the key of the Compute API's error body for a status.
func errorKey(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "itemNotFound"
	case http.StatusMethodNotAllowed:
		return "badMethod"
	case http.StatusRequestTimeout:
		return "requestTimeout"
	case http.StatusConflict:
		return "conflictingRequest"
	case http.StatusRequestEntityTooLarge:
		return "overLimit"
	case http.StatusUnsupportedMediaType:
		return "badMediaType"
	case http.StatusNotImplemented:
		return "notImplemented"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	}
	return "computeFault"
}

// writeFault writes the response for an error. An internal error is logged in full; the client receives only the id of
// the request.
func (s *server) writeFault(c *call, err error) {
	code, message := statusOf(err), fault.TextOf(err)
	timeUp := errors.Is(err, context.DeadlineExceeded) && errors.Is(c.R.Context().Err(), context.DeadlineExceeded)
	if timeUp && fault.CodeOf(err) == "" {
		code, message = http.StatusServiceUnavailable, fault.TextOf(context.Cause(c.R.Context()))
	}
	id := c.W.Header().Get("X-Compute-Request-Id")
	if code >= http.StatusInternalServerError && code != http.StatusNotImplemented && !errors.Is(c.R.Context().Err(),
		context.Canceled) {
		s.Log.Error("request failed", "method", c.R.Method, "path", c.R.URL.Path, "request", id, "error", err)
	}
	if code == http.StatusInternalServerError {
		message = internalError(id)
	}
	writeError(c.W, code, message)
}

func internalError(request string) string {
	return "Internal error; the log of Berth has the reason under " + request + "."
}

func writeError(w http.ResponseWriter, code int, message string) {
	rest.WriteJSON(w, code, map[string]any{errorKey(code): map[string]any{"code": code, "message": message}})
}
