// Package store keeps compute's state in SQL: flavors, servers, and the last report of each host.
//
// A record of a server is kept as one JSON text, beside columns for what is asked about and a row for each of its stays on hosts. In the transaction in
// which a server enters, leaves or changes in the assignments of a host, the revision of that host is raised; after it, those
// who follow the host are woken.
package store

import (
	"context"
	"crypto/rand"
	"fmt"
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
	db     fencedDB
	cloud  string
	epoch  Epoch // of this process; zero before BeginEpoch
	writes *sqldb.WriteCheck

	mu        sync.Mutex
	subscribers map[string]map[chan struct{}]bool // by host
}

// Open brings the tables up to date and returns the store. The database stays the caller's to close.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) {
	if err := sqldb.Migrate(ctx, db, versionTable, steps()); err != nil {
		return nil, fault.Wrap("", "compute.store.Open", err)
	}
	s := &Store{db: fencedDB{db: db}, subscribers: map[string]map[chan struct{}]bool{}}
	s.writes = sqldb.NewWriteCheck(s.touch)
	return s, wrap("Open", s.loadCloudID(ctx))
}

// Cloud is the UUID that was made with this database.
func (s *Store) Cloud() string { return s.cloud }

// name reads the cloud's UUID, and makes it the first time.
func (s *Store) loadCloudID(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.InsertIgnore(ctx, `INSERT INTO compute_cloud (one, id) VALUES (1, ?)`, newUUID()); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT id FROM compute_cloud WHERE one = 1`).Scan(&s.cloud)
	})
}

// newUUID makes a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
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
