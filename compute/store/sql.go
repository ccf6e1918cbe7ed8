package store

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// MaxPage is the largest number of rows that one listing returns.
const MaxPage = 1000

// chunk is the maximum number of values in one IN (…).
const chunk = 500

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

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// wrap adds the operation to an error; a fault keeps its kind.
func wrap(err error) error { return fault.Wrap("", err) }
