package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// batch is how many values one statement carries at most, well below what any database allows.
const batch = 500

// write runs fn in one transaction. fn may run several times, so it must set results afresh each time.
func (s *Store) write(ctx context.Context, op string, fn func(tx *sqldb.Tx) error) error {
	return s.watch(op, fn, func(fn func(*sqldb.Tx) error) error { return s.db.Write(ctx, fn) })
}

// writeClaims is write with the attempts that claims have.
func (s *Store) writeClaims(ctx context.Context, op string, fn func(tx *sqldb.Tx) error) error {
	return s.watch(op, fn, func(fn func(*sqldb.Tx) error) error { return s.db.WriteUpTo(ctx, s.ClaimAttempts, fn) })
}

// read runs fn on one snapshot; it may run several times, too.
func (s *Store) read(ctx context.Context, op string, fn func(tx *sqldb.Tx) error) error {
	return s.watch(op, fn, func(fn func(*sqldb.Tx) error) error { return s.db.Read(ctx, fn) })
}

// watch carries a transaction out and tells Watch about it.
func (s *Store) watch(op string, fn func(*sqldb.Tx) error, carryOut func(func(*sqldb.Tx) error) error) error {
	if s.Watch == nil {
		return wrapError(op, carryOut(fn))
	}
	run := Run{Op: op}
	began := s.Now()
	run.Err = wrapError(op, carryOut(func(tx *sqldb.Tx) error {
		run.Attempts++
		return fn(tx)
	}))
	run.Took = s.Now().Sub(began)
	s.Watch(run)
	return run.Err
}

// wrap says what an error of a transaction is. A text that the database cannot hold is no fault of it, nor of ours.
func wrapError(op string, err error) error {
	op = "placement.store." + op
	if sqldb.IsUnspeakable(err) {
		return fault.New(fault.Invalid, op, "a text holds a character that this database cannot hold, such as NUL or an emoji")
	}
	return fault.Wrap("", op, err)
}

// now is the moment that a write records, as the database can hold it.
func (s *Store) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// marks gives n placeholders for IN (…).
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// anys gives a list of any type to a statement.
func toAny[T any](list []T) []any {
	all := make([]any, 0, len(list))
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

// each calls scan for every row of a query.
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

// eachOf is each for a query with one `IN (…)`, written `IN (%)`, over a list of any length.
func queryIn[T any](ctx context.Context, tx *sqldb.Tx, query string, list []T, scan func(rows *sql.Rows) error) error {
	for part := range chunks(list) {
		if err := queryEach(ctx, tx, strings.Replace(query, "%", placeholders(len(part)), 1), toAny(part), scan); err != nil {
			return err
		}
	}
	return nil
}

// execOf is eachOf for a statement without rows.
func execIn[T any](ctx context.Context, tx *sqldb.Tx, query string, list []T) error {
	for part := range chunks(list) {
		if _, err := tx.Exec(ctx, strings.Replace(query, "%", placeholders(len(part)), 1), toAny(part)...); err != nil {
			return err
		}
	}
	return nil
}

// insert writes rows of as many values as columns names.
func insert(ctx context.Context, tx *sqldb.Tx, table, columns string, rows [][]any) error {
	for part := range chunks(rows) {
		query, values := insertStatement(table, columns, part)
		if _, err := tx.Exec(ctx, query, values...); err != nil {
			return err
		}
	}
	return nil
}

// insertFirst is insert and returns the number that the database gave the first row; on SQLite it is one of the rows'
// numbers. Without rows it is 0.
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

// inserting is the statement that writes rows, and its values.
func insertStatement(table, columns string, rows [][]any) (query string, values []any) {
	for _, row := range rows {
		values = append(values, row...)
	}
	one := "(" + placeholders(len(rows[0])) + "), "
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + strings.TrimSuffix(strings.Repeat(one, len(rows)),
		", "), values
}

// guarded is a row that may change only while it has this generation.
type guarded struct {
	id         int64
	generation int
}

// guardedExec runs a statement that ends in WHERE on these rows, and reports whether all of them still had their generations.
func guardedExec(ctx context.Context, tx *sqldb.Tx, statement string, first []any, rows []guarded) (bool, error) {
	for part := range chunks(rows) {
		values := append([]any(nil), first...)
		for _, row := range part {
			values = append(values, row.id, row.generation)
		}
		terms := strings.TrimSuffix(strings.Repeat("(id = ? AND generation = ?) OR ", len(part)), " OR ")
		result, err := tx.Exec(ctx, statement+" "+terms, values...)
		if err != nil {
			return false, err
		}
		if n, err := result.RowsAffected(); err != nil || n != int64(len(part)) {
			return false, err
		}
	}
	return true, nil
}

// chunks is slices.Chunk of a size that fits one statement.
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

// stamps is the two timestamps of a row; scan into both.
type timestamps struct{ created, updated sql.NullTime }

// modified is the moment of the last change.
func (m timestamps) modified() time.Time {
	if m.updated.Valid {
		return m.updated.Time.UTC()
	}
	return m.created.Time.UTC() // the zero time when there is none
}

// concurrent is the fault of a write that came too late.
func concurrent(format string, args ...any) error {
	return fault.New(fault.Conflict, "", format, args...).WithCode(codeConcurrent)
}
