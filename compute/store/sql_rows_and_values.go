package store

import (
	"database/sql"
	"time"
)

// requireRow returns the fault none if a statement affected no row.
func requireRow(done sql.Result, err error, none error) error {
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return none
}

type scanner interface{ Scan(into ...any) error }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// micros returns a time as stored in a column: microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
