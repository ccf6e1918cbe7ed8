package server

import (
	"time"

	"github.com/openberth/berth/fault"
)

// apiMicros formats a time in UTC with microseconds and without a zone, as many parts of the API do.
func apiMicros(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000") }

// parseTime reads a time of a query. It returns fault.Invalid for other texts.
func parseTime(text string) (time.Time, error) {
	layouts := []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "%q is not a valid time; write it as 2026-01-31T13:30:00Z", text)
}
