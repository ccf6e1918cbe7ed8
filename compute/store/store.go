// Package store stores compute's state in SQL: flavors, servers, and the last report of each host.
//
// The record of a server is one JSON text. Columns duplicate what queries filter by, and each residence of the server
// has a row. A transaction that changes the assignments of a host increments the revision of that host; after the
// commit, the subscribers of the host are notified.
//
// The files, from the bottom to the top: sql.go and schema.go; host_locks.go, host_cache.go, report_cache.go,
// server_cache.go, assignment_cache.go and remembered.go are what is kept in memory; store.go has the type Store;
// server_columns.go, removals.go, migrations.go, quota_limits.go, quota_use.go and residences.go write what a change of
// a server changes, or decide on it; servers.go, server_lists.go, server_sums.go, reports.go, assignments.go and the
// others have one kind of rows each; open.go opens the store.
package store

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/store/lease"
	"github.com/openberth/berth/sqldb"
)

// Store is compute's database. It is safe for concurrent use.
type Store struct {
	db     lease.Database
	cloud  string
	epoch  Epoch // of this process; zero before BeginEpoch
	writes *sqldb.WriteCheck

	accounts hostAccounts
	servers  *serverCache
	hosts    *hostCache
	plans    planMemories
	reports  *reportCache

	assignments *assignmentCache
	migrations  migrationNumbers

	flavors       remembered[string, flavor.Flavor] // by id
	limits        remembered[QuotaOwner, ProjectLimits]
	dead          remembered[none, []string]
	disabled      remembered[none, map[string]string]
	allAggregates remembered[none, []Aggregate]

	defaultZone string       // of hosts without another one
	zones       sync.RWMutex // held for writing while aggregates change, for reading while servers do

	quotaDefaults quota.Amounts
	quotaSource   QuotaSource // nil: limits are in the database
	quotaLocks    keyedLocks  // by project
	groupLocks    keyedLocks  // by server group

	mu          sync.Mutex
	subscribers map[string]map[chan struct{}]bool // by host
}

// none is the key of what is remembered as a whole.
type none struct{}

// Hold acquires the lease of the database for this process, as lease.Database.Hold does. Keep must run as long as the
// store is used.
func (s *Store) Hold(ctx context.Context, me lease.Owner, terms lease.Options) (*lease.Lease, error) {
	return s.db.Hold(ctx, me, terms)
}

// Cloud returns the UUID that was created with this database.
func (s *Store) Cloud() string { return s.cloud }

// Available returns nil, or fault.Unavailable if the database file was deleted or replaced, so that no call can
// succeed.
func (s *Store) Available() error { return s.db.Available() }

// CheckReads returns nil if the database answers a query, otherwise fault.Unavailable.
func (s *Store) CheckReads(ctx context.Context) error {
	_, err := s.texts(ctx, `SELECT id FROM compute_cloud`)
	return wrap(err)
}

// CheckWrites returns nil if the database accepts writes of this process, otherwise fault.Unavailable, whose text
// completes "the database takes no writes:". It returns after at most patience.
func (s *Store) CheckWrites(patience time.Duration) error { return s.writes.Check(patience) }

// touch is the write that CheckWrites attempts.
func (s *Store) touch(ctx context.Context) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error { return tx.Touch(ctx, "compute_cloud", "id") }))
}

// Epoch is one start of compute on its database. Agents store the newest one they have seen and so detect a database
// that was restored from a backup.
type Epoch struct {
	Number int64  // from 1; 0: none
	ID     string // random; distinguishes two copies of a database with the same number
}

// texts returns the texts in the first column of a query.
func (s *Store) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	var list []string
	err := s.db.ReadOne(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = sqldb.QueryTexts(ctx, tx, query, args...)
		return err
	})
	return list, err
}
