package sqldb

import (
	"context"
	"database/sql"
	"strings"
)

// MaxValues is the largest number of values in one statement, well below the limit of every database.
const MaxValues = 500

// Placeholders returns n placeholders for IN (…).
func Placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// ToAny converts a list of any type to arguments of a statement.
func ToAny[T any](list []T) []any {
	all := make([]any, 0, len(list))
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

// QueryEach calls scan for every row of a query.
func QueryEach(ctx context.Context, tx *Tx, query string, args []any, scan func(rows *sql.Rows) error) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// QueryIn is QueryEach for a query with one `IN (…)`, written `IN (%)`, over a list of any length.
func QueryIn[T any](ctx context.Context, tx *Tx, query string, list []T, scan func(rows *sql.Rows) error) error {
	for part := range Chunks(list) {
		filled := strings.Replace(query, "%", Placeholders(len(part)), 1)
		if err := QueryEach(ctx, tx, filled, ToAny(part), scan); err != nil {
			return err
		}
	}
	return nil
}

// QueryList returns what scan makes of each row of a query, in the order of the rows.
func QueryList[T any](ctx context.Context, tx *Tx, query string, args []any,
	scan func(rows *sql.Rows) (T, error)) (list []T, err error) {
	err = QueryEach(ctx, tx, query, args, func(rows *sql.Rows) error {
		row, err := scan(rows)
		list = append(list, row)
		return err
	})
	return list, err
}

// Finder reads the rows of one kind that match a condition.
type Finder[T any] func(ctx context.Context, tx *Tx, where string, args ...any) ([]T, error)

// FindIn returns the rows whose column is in a list of any length. Values without a row are left out.
func FindIn[T, V any](ctx context.Context, tx *Tx, column string, list []V, find Finder[T]) (all []T, err error) {
	for part := range Chunks(list) {
		rows, err := find(ctx, tx, column+" IN ("+Placeholders(len(part))+")", ToAny(part)...)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// Chunks splits a list into parts that fit into one statement.
func Chunks[T any](list []T) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n := min(MaxValues, len(list))
			if !yield(list[:n:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// QueryTexts returns the texts of a query with one column.
func QueryTexts(ctx context.Context, tx *Tx, query string, args ...any) ([]string, error) {
	return QueryList(ctx, tx, query, args, func(rows *sql.Rows) (text string, err error) {
		err = rows.Scan(&text)
		return text, err
	})
}

// QueryMap returns the result of a query with two columns: by the first one, which is unique, the second.
func QueryMap[K comparable, V any](ctx context.Context, tx *Tx, query string, args ...any) (map[K]V, error) {
	all := map[K]V{}
	err := QueryEach(ctx, tx, query, args, func(rows *sql.Rows) error {
		var key K
		var value V
		err := rows.Scan(&key, &value)
		all[key] = value
		return err
	})
	return all, err
}

// RequireRow returns the fault none if a statement affected no row.
func RequireRow(done sql.Result, err error, none error) error {
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return none
}
