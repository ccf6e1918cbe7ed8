// Package store keeps compute's state in SQL: flavors, servers, and the last report of each host.
//
// A record of a server is kept as one JSON text, beside columns for what is asked about. In the transaction in
// which a server enters, leaves or changes in the assignments of a host, the revision of that host is raised; after it, those
// who follow the host are woken.
package store

import (
	"context"
	"strings"
	"sync"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// MaxPage is the largest number of rows that one listing returns.
const MaxPage = 1000

// chunk is how many values one IN (…) holds at most.
const chunk = 500

// Store is compute's database. It is safe for concurrent use.
type Store struct {
	db *sqldb.DB

	mu        sync.Mutex
	followers map[string]map[chan struct{}]bool // by host
}

// Open brings the tables up to date and returns the store. The database stays the caller's to close.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) {
	if err := sqldb.Migrate(ctx, db, versions, steps()); err != nil {
		return nil, fault.Wrap("", "compute.store.Open", err)
	}
	return &Store{db: db, followers: map[string]map[chan struct{}]bool{}}, nil
}

// wrap gives an error of SQL its operation; a fault keeps its kind.
func wrap(op string, err error) error { return fault.Wrap("", "compute.store."+op, err) }

// page is the limit of a listing as it is meant.
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

// in is `column IN (?, …)` for one chunk of values.
func in[T ~string](column string, values []T) (string, []any) {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	return column + " IN (" + strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ") + ")", args
}

// like makes a pattern for `LIKE ? ESCAPE '!'` that finds text anywhere.
func like(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}
