// Package fault defines Berth's error type: what failed (Kind) and why (a sentence or a cause).
//
// A fault is an error that ends an operation. A refusal, the expected "no" of a scheduler or a solver, is a value
// with a sentence, not an error. Package api/rest maps a Kind to an HTTP status, and each API writes its own body; no
// other code inspects the text.
package fault

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// Kind is the kind of a fault. Kinds are words, not numbers, so they can be sent to other processes.
type Kind string

// The kinds. Package api/rest maps each kind to an HTTP status and back; a new kind needs both mappings.
const (
	Invalid     Kind = "invalid"     // the request is not valid: syntax, range, unknown name
	NotFound    Kind = "not found"   // the named object does not exist
	Conflict    Kind = "conflict"    // the object has changed since the caller read it, or is in use
	NoCapacity  Kind = "no capacity" // the request is valid but there is not enough capacity left
	Forbidden   Kind = "forbidden"   // the caller may not do this
	Unavailable Kind = "unavailable" // a dependency does not answer; a retry may succeed
	Internal    Kind = "internal"    // a defect of Berth, or an inconsistent environment
)

// Error is a fault. Code is an optional stable word for programs, such as Placement's "placement.concurrent_update".
type Error struct {
	Kind Kind
	Code string
	Msg  string
	Err  error
	// Request is the request to another service that failed, such as "GET /v2.0/ports". Error begins with it.
	Request string

	at uintptr // program counter of the caller of New or Wrap, of faults that only logs explain; 0: not recorded
}

// New returns a fault with a formatted sentence. A %w in the format keeps its cause.
func New(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Msg: err.Error(), Err: errors.Unwrap(err), at: caller(kind)}
}

// Wrap adds a kind to an error. If kind is empty, a fault keeps its own kind. Wrap returns nil for nil.
func Wrap(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Kind: kind, Err: err, at: caller(kind)}
	if kind == "" {
		e.Kind, e.Code = KindOf(err), CodeOf(err)
	}
	return e
}

// Of returns the fault of a request to another service, such as "GET /v2.0/ports".
func (e *Error) Of(request string) *Error {
	c := *e
	c.Request = request
	return &c
}

// caller returns where New or Wrap was called, for the kinds that are looked for in the code.
func caller(kind Kind) uintptr {
	if kind != Internal && kind != Unavailable {
		return 0
	}
	var at [1]uintptr
	runtime.Callers(3, at[:])
	return at[0]
}

// Where returns the function that made the innermost fault whose place is recorded, such as
// "placement/store.(*Store).PutAllocations", or "".
func Where(err error) (function string) {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			break
		}
		if e.at != 0 {
			frame, _ := runtime.CallersFrames([]uintptr{e.at}).Next()
			function = strings.TrimPrefix(frame.Function, "github.com/openberth/berth/")
		}
		err = e.Err
	}
	return function
}

// WithCode returns the fault with a stable word for programs.
func (e *Error) WithCode(code string) *Error {
	c := *e
	c.Code = code
	return &c
}

// Error returns the request, if there is one, and the reason.
func (e *Error) Error() string {
	if e.Request != "" {
		return e.Request + ": " + e.Text()
	}
	return e.Text()
}

// Text returns the reason without the request, for the body of an API response.
func (e *Error) Text() string {
	if e.Msg != "" {
		return e.Msg
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return string(e.Kind)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost fault in err, Internal for other errors and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// CodeOf returns the first code in the chain of err, or "".
func CodeOf(err error) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Code != "" {
			return e.Code
		}
		err = e.Err
	}
	return ""
}

// TextOf returns the innermost sentence of a fault, without requests.
func TextOf(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if e.Msg == "" && e.Err != nil {
		return TextOf(e.Err)
	}
	return e.Text()
}

// Is reports whether err is a fault of this kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
