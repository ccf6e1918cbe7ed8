package request

import (
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// OrNull returns a pointer to a text; nil (null) if it is empty.
func OrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// NotNil returns an empty map for nil, so that it prints as {} and not as null.
func NotNil[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// Texts converts a list of a string type to strings; the result is never nil.
func Texts[T ~string](words []T) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}

// Micros formats a time in UTC with microseconds and without a zone, as many parts of the API do.
func Micros(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000") }

// MicrosOrNull is Micros for a field; a zero time is null.
func MicrosOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return OrNull(Micros(t))
}

// ParseTime reads a time of a query. It returns fault.Invalid for other texts.
func ParseTime(text string) (time.Time, error) {
	layouts := []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "%q is not a valid time; write it as 2026-01-31T13:30:00Z", text)
}

// IsUUID reports whether a text is a UUID.
func IsUUID(text string) bool {
	_, err := uuid.Parse(text)
	return err == nil
}

// TagText matches the tags that the Compute API allows.
var TagText = regexp.MustCompile(`^[^,/]{1,60}$`)
