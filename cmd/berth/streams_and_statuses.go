package main

import (
	"io"
	"log/slog"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/systemd"
)

// streams are the outputs of a command: its results, its log, and the service manager that started it.
type streams struct {
	out, log io.Writer
	manager  systemd.Manager
	wide     bool // tables are not shortened: --wide
}

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

// newLog returns a log. An error that is looked for in the code is logged with the function that made it.
func newLog(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if err, is := a.Value.Any().(error); is {
				if where := fault.Where(err); where != "" {
					a.Value = slog.StringValue(err.Error() + " (in " + where + ")")
				}
			}
			return a
		}}))
}
