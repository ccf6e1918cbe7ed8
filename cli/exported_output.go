package cli

import "time"

// Print writes value as JSON, or the rows as a table under a header, as --output selects.
func Print(g *Globals, value any, header []string, rows [][]string) error {
	return g.print(value, header, rows)
}

// LocalTime returns a time for people, in the zone of this machine; "-" for none.
func LocalTime(at time.Time) string { return localTime(at) }

// UTCTime returns a time as JSON has it.
func UTCTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
