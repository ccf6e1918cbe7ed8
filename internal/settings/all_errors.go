package settings

import (
	"log/slog"
	"strings"

	"github.com/openberth/berth/fault"
)

// AllErrors returns err, an error of Read for the same files, together with all other errors in the files.
func AllErrors(err error, files ...string) error {
	_, faults, readErr := readAll(slog.New(slog.DiscardHandler), files...)
	if readErr != nil || len(faults) < 2 {
		return err
	}
	var sentences []string
	for _, one := range faults {
		sentences = append(sentences, fault.TextOf(one))
	}
	return Combine(fault.Invalid, sentences)
}

// Combine returns one fault that lists several sentences, one a line.
func Combine(kind fault.Kind, sentences []string) error {
	return fault.New(kind, "%d things are in the way:\n  %s", len(sentences), strings.Join(sentences, "\n  "))
}
