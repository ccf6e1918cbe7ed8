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

// batch is the largest number of values in one statement, well below the limit of every database.
const batch = 500

// placeholders returns n placeholders for IN (…).
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// toAny converts a list of any type to arguments of a statement.
func toAny[T any](list []T) []any {
	all := make([]any, 0, len(list))
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

// queryEach calls scan for every row of a query.
func queryEach(ctx context.Context, tx *sqldb.Tx, query string, args []any, scan func(rows *sql.Rows) error) error {
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

// queryIn is queryEach for a query with one `IN (…)`, written `IN (%)`, over a list of any length.
func queryIn[T any](ctx context.Context, tx *sqldb.Tx, query string, list []T, scan func(rows *sql.Rows) error) error {
	for part := range chunks(list) {
		filled := strings.Replace(query, "%", placeholders(len(part)), 1)
		if err := queryEach(ctx, tx, filled, toAny(part), scan); err != nil {
			return err
		}
	}
	return nil
}

// queryList returns what scan makes of each row of a query, in the order of the rows.
func queryList[T any](ctx context.Context, tx *sqldb.Tx, query string, args []any,
	scan func(rows *sql.Rows) (T, error)) (list []T, err error) {
	err = queryEach(ctx, tx, query, args, func(rows *sql.Rows) error {
		row, err := scan(rows)
		list = append(list, row)
		return err
	})
	return list, err
}

// finder reads the rows of one kind that match a condition.
type finder[T any] func(ctx context.Context, tx *sqldb.Tx, where string, args ...any) ([]T, error)

// findIn returns the rows whose column is in a list of any length. Values without a row are left out.
func findIn[T, V any](ctx context.Context, tx *sqldb.Tx, column string, list []V, find finder[T]) (all []T, err error) {
	for part := range chunks(list) {
		rows, err := find(ctx, tx, column+" IN ("+placeholders(len(part))+")", toAny(part)...)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

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

// execIn is queryIn for a statement that returns no rows.
func execIn[T any](ctx context.Context, tx *sqldb.Tx, query string, list []T) error {
	for part := range chunks(list) {
		if _, err := tx.Exec(ctx, strings.Replace(query, "%", placeholders(len(part)), 1), toAny(part)...); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts rows; each row has one value per column in columns.
func insert(ctx context.Context, tx *sqldb.Tx, table, columns string, rows [][]any) error {
	for part := range chunks(rows) {
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
	first := rows[:min(batch, len(rows))]
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
	one := "(" + placeholders(len(rows[0])) + "), "
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + strings.TrimSuffix(strings.Repeat(one, len(rows)),
		", "), values
}

// chunks splits a list into parts that fit into one statement.
func chunks[T any](list []T) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n := min(batch, len(list))
			if !yield(list[:n:n]) {
				return
			}
			list = list[n:]
		}
	}
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
