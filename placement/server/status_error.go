package server

import (
	"errors"
	"fmt"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
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
