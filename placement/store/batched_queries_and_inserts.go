package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/sqldb"
)

// firstOr returns the first of the rows that were found, or the error missing if there are none.
func firstOr[T any](list []T, err, missing error) (row T, _ error) {
	switch {
	case err != nil:
		return row, err
	case len(list) == 0:
		return row, missing
	}
	return list[0], nil
}

// asNamed gives rows the names that a request has for them: MariaDB may find a name that is stored in other letters.
func asNamed[N ~string, V any](found map[N]V, names []N) {
	wanted := make(map[N]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	for stored, row := range found {
		if wanted[stored] {
			continue
		}
		for _, name := range names {
			if strings.EqualFold(string(name), string(stored)) {
				delete(found, stored)
				found[name] = row
			}
		}
	}
}

// execIn is queryIn for a statement that returns no rows.
func execIn[T any](ctx context.Context, tx *sqldb.Tx, query string, list []T) error {
	for part := range sqldb.Chunks(list) {
		filled := strings.Replace(query, "%", sqldb.Placeholders(len(part)), 1)
		if _, err := tx.Exec(ctx, filled, sqldb.ToAny(part)...); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts rows; each row has one value per column in columns.
func insert(ctx context.Context, tx *sqldb.Tx, table, columns string, rows [][]any) error {
	for part := range sqldb.Chunks(rows) {
		query, values := insertStatement(table, columns, part)
		if _, err := tx.Exec(ctx, query, values...); err != nil {
			return err
		}
	}
	return nil
}

// insertFirst is insert and returns the id of the first row; on SQLite it is the id of one of the rows. Without rows
// it returns 0.
func insertFirst(ctx context.Context, tx *sqldb.Tx, table, columns string, rows [][]any) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	first := rows[:min(sqldb.MaxValues, len(rows))]
	query, values := insertStatement(table, columns, first)
	id, err := tx.Insert(ctx, query, values...)
	if err != nil {
		return 0, err
	}
	return id, insert(ctx, tx, table, columns, rows[len(first):])
}

// insertStatement returns the statement that inserts rows, and its values.
func insertStatement(table, columns string, rows [][]any) (query string, values []any) {
	for _, row := range rows {
		values = append(values, row...)
	}
	one := "(" + sqldb.Placeholders(len(rows[0])) + "), "
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + strings.TrimSuffix(strings.Repeat(one, len(rows)),
		", "), values
}

// timestamps holds the two timestamps of a row, for Scan.
type timestamps struct{ created, updated sql.NullTime }

// modified returns the time of the last change, or the zero time if there is none.
func (m timestamps) modified() time.Time {
	if m.updated.Valid {
		return m.updated.Time.UTC()
	}
	return m.created.Time.UTC()
}

// sortedSet returns the values of a list, sorted, without duplicates.
func sortedSet[T cmp.Ordered](list []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// padded repeats the last value of a list until its length is a power of two. So `IN (…)` has few different lengths,
// and PostgreSQL's connections few prepared statements.
func padded[T any](list []T) []T {
	n := 1
	for n < len(list) {
		n *= 2
	}
	list = slices.Clip(list)
	for len(list) > 0 && len(list) < n {
		list = append(list, list[len(list)-1])
	}
	return list
}
