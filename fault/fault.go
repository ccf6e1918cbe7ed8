// Package fault is Berth's one error type: what went wrong (Kind), where (Op), and why (a sentence or a cause).
//
// A fault is an error: something that stops an operation. A refusal, the expected "no" of a
// scheduler or a solver, is a value with a sentence in it and not an error. The edge of each
// house turns a Kind into its API's own status and body; nothing else looks at the text.
package fault

import (
	"errors"
	"fmt"
)

// Kind says which of seven things went wrong. Kinds are words, not numbers, so they survive a wire.
type Kind string

// The kinds. Each edge maps every one of them; a new kind needs a mapping everywhere.
const (
	Invalid     Kind = "invalid"     // the caller's words make no sense: a syntax, a range, an unknown name
	NotFound    Kind = "not found"   // the thing named does not exist
	Conflict    Kind = "conflict"    // the thing changed since the caller looked, or is in use
	NoCapacity  Kind = "no capacity" // the request is sound but there is not enough left
	Forbidden   Kind = "forbidden"   // the caller may not do this
	Unavailable Kind = "unavailable" // something Berth needs does not answer; trying again may help
	Internal    Kind = "internal"    // Berth is wrong, or the world is broken
)

// Error is a fault. Code is an optional stable word for programs, such as Placement's
// "placement.concurrent_update"; Op is the operation, such as "placement.store.PutAllocations".
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

// Wrap gives an error an operation and a kind. A fault keeps its own kind when kind is empty; nil stays nil.
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

// Error prints the operations from the outside in, and then the reason.
func (e *Error) Error() string {
	text := e.Text()
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Text is the reason alone, without this fault's own operation: what an API body shows.
func (e *Error) Text() string {
	if e.Msg != "" {
		return e.Msg
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return string(e.Kind)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf finds the kind of the outermost fault in err, Internal for other errors and empty for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// CodeOf finds the first code in the chain of err, or nothing.
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

// TextOf is the innermost sentence of a fault, without operations: what a person asked for, not where it passed.
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
