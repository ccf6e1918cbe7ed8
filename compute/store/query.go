package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// MaxPage is the largest number of rows that one listing returns.
const MaxPage = 1000

// chunk is the maximum number of values in one IN (…).
const chunk = 500

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// wrap adds the operation to an error; a fault keeps its kind.
func wrap(op string, err error) error { return fault.Wrap("", "compute.store."+op, err) }

// page returns the effective limit of a listing.
func page(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// where collects conditions and their arguments.
type where struct {
	conditions []string
	args       []any
}

func (w *where) and(condition string, args ...any) {
	w.conditions = append(w.conditions, condition)
	w.args = append(w.args, args...)
}

func (w *where) sql() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// in returns the condition `column IN (?, …)` and its arguments for one chunk of values.
func in[T ~string](column string, values []T) (string, []any) {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	return column + " IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ") + ")", args
}

// like returns a pattern for `LIKE ? ESCAPE '!'` that matches text at any position.
func like(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

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
