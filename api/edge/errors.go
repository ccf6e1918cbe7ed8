package edge

import (
	"errors"
	"net/http"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// StatusError is an error with an HTTP status that does not follow from its kind. Its text is meant for the client.
type StatusError struct {
	Status int
	Err    error
}

// Error returns the text of the cause.
func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// StatusErrorf returns a StatusError with a fault of the kind that belongs to the status.
func StatusErrorf(status int, format string, args ...any) error {
	return &StatusError{Status: status, Err: fault.New(rest.KindOfStatus(status), format, args...)}
}

// UsualError returns the error for a refusal of a request, for APIs that have no text of their own for it. It returns
// the refusal itself for NotAllowed and for the media types.
func UsualError(request *http.Request, r *Refusal) error {
	switch r.Reason {
	case LineTooLong:
		return StatusErrorf(http.StatusRequestURITooLong, "the request line is over %d bytes", MaxRequestLine)
	case Unauthenticated:
		return &StatusError{Status: http.StatusUnauthorized, Err: r.Err}
	case NoRoute:
		return fault.New(fault.NotFound, "there is nothing at %s", request.URL.Path)
	case NoMethod:
		return StatusErrorf(http.StatusMethodNotAllowed,
			"method %s is not allowed on %s; the header Allow lists the allowed methods", request.Method, request.URL.Path)
	case BodyTooLarge:
		return StatusErrorf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", r.Limit)
	case BodyTooSlow:
		return StatusErrorf(http.StatusRequestTimeout, "%w", r.Err)
	case BodyLost:
		return fault.New(fault.Invalid, "the body is incomplete: %w", r.Err)
	}
	return r
}

// StatusOf returns the HTTP status of an error.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status
	}
	return rest.StatusOfKind(fault.KindOf(err))
}
