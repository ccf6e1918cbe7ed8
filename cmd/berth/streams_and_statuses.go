package main

import (
	"io"

	"github.com/openberth/berth/fault"
)

// streams are the outputs of a command: its results and its log.
type streams struct{ out, log io.Writer }

// Exit statuses: the command failed, or the command line is not valid. exitStatus returns that of an interruption.
const (
	statusFailed = 1
	statusUsage  = 2
)

// sentence returns the text of an error for users: a fault's text without the operations that it passed through.
func sentence(err error) string {
	if fault.Is(err, fault.Internal) {
		return err.Error()
	}
	return fault.TextOf(err)
}

// joined returns the errors in an errors.Join, or err alone. A service can stop with two errors: a request was cut off,
// and its database was lost.
func joined(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, joined(one)...)
		}
		return all
	}
	return []error{err}
}
