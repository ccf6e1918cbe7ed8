// Package fault defines Berth's error type: what failed (Kind), where (Op), and why (a sentence or a cause).
//
// A fault is an error that ends an operation. A refusal, the expected "no" of a scheduler or a solver, is a value
// with a sentence, not an error. Package api/rest maps a Kind to an HTTP status, and each API writes its own body; no
// other code inspects the text.
package fault

import (
	"errors"
	"fmt"
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
// Op is the operation, such as "placement.store.PutAllocations".
type Error struct {
	Kind Kind
	Op   string
	Code string
	Msg  string
	Err  error
}

// New returns a fault with a formatted sentence. A %w in the format keeps its cause.
func New(kind Kind, op, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Op: op, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// Wrap adds an operation and a kind to an error. If kind is empty, a fault keeps its own kind. Wrap returns nil for
// nil.
func Wrap(kind Kind, op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Kind: kind, Op: op, Err: err}
	if kind == "" {
		e.Kind, e.Code = KindOf(err), CodeOf(err)
	}
	return e
}

// WithCode returns the fault with a stable word for programs.
func (e *Error) WithCode(code string) *Error {
	c := *e
	c.Code = code
	return &c
}

// Error returns the operations from the outermost to the innermost, and then the reason.
func (e *Error) Error() string {
	text := e.Text()
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Text returns the reason without this fault's own operation, for the body of an API response.
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

// TextOf returns the innermost sentence of a fault, without operations.
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
