package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/openberth/berth/sqldb"
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

// readTexts returns the result of a query with one text column.
func readTexts(ctx context.Context, tx *sqldb.Tx, query string, args ...any) ([]string, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

// micros returns a time as stored in a column: microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
