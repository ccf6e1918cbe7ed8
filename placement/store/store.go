// Package store reads and writes Placement's data in SQL, in the database schema of OpenStack Placement.
//
// Berth and an original Placement can serve the same database, one after the other or at the same time: tables,
// identifiers, generations and timestamps mean the same to both. Only the usage history has tables of Berth's own.
//
// All decisions are made in SQL: every write reads what it depends on inside its own transaction and compares
// generations before it commits. So the in-memory index may be stale, and still no resource is allocated twice.
//
// Methods return faults. A Conflict with code placement.concurrent_update means: read again, then repeat. A Conflict
// without a code is what the API calls placement.undefined_code. A missing object that the request names in its path
// is NotFound; one that it names in its body is Invalid.
package store

import (
	"context"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// The codes of Placement's API that the faults of this package carry, and other constants.
const (
	codeConcurrent   = "placement.concurrent_update"
	codeDuplicate    = "placement.duplicate_name"
	codeInventory    = "placement.inventory.inuse"
	codeInUse        = "placement.resource_provider.inuse"
	codeParent       = "placement.resource_provider.cannot_delete_parent"
	codeNoProvider   = "placement.resource_provider.not_found"
	CodeTreeChanged  = "berth.tree_changed"
	incompleteOwner  = "00000000-0000-0000-0000-000000000000"
	claimAttempts    = 10        // the original's default
	unknownType      = "unknown" // what the API calls a consumer without a type
	firstCustomClass = 10000     // numbers below belong to the standard resource classes
)

// Store reads and writes Placement's database. It is safe for concurrent use once its fields are set.
type Store struct {
	Now               func() time.Time // the clock of created_at and updated_at
	IncompleteProject string           // project of consumers without one: [placement]incomplete_consumer_project_id
	IncompleteUser    string           // user of consumers without one: [placement]incomplete_consumer_user_id
	ClaimAttempts     int              // of a conflicting claim: [placement]allocation_conflict_retry_count
	Watch             func(Run)        // called after each transaction; may be nil

	db      *sqldb.DB
	writes  *sqldb.WriteCheck
	batches *batchQueue // of claims and removals; nil on SQLite
	states  *treeStates
}

// Run describes a transaction that has ended.
type Run struct {
	Op       string        // the method that ran it, such as PutAllocations
	Attempts int           // how often it was run; 0: BEGIN failed
	Took     time.Duration // all attempts and the pauses between them
	Err      error
}

// Change is the effect of a write. Roots are the roots of all trees that it changed, sorted; after a move both the
// old and the new root.
type Change struct {
	Roots      []provider.ID
	Used       []provider.ID // the providers whose usage changed, sorted, if only usage and generations changed
	Generation int           // of the provider named in the call, after the write; 0 if the call names none or several

	// Added is the effect on each provider in Used, if the transaction knows it exactly; otherwise nil.
	Added map[provider.ID]UsageChange
}

// UsageChange is what one write adds to the usage and to the generation of a provider.
type UsageChange struct {
	Amounts resource.Amounts // negative after a removal
	Raised  int
}

// addedBy returns the effect of claims of consumers without allocations: each provider's generation is raised once.
func addedBy(claims []Claim) map[provider.ID]UsageChange {
	added := map[provider.ID]UsageChange{}
	for _, claim := range claims {
		for id, amounts := range claim.Allocation {
			sum := added[id].Amounts
			if sum == nil {
				sum = make(resource.Amounts, len(amounts))
				added[id] = UsageChange{Amounts: sum, Raised: 1}
			}
			for class, n := range amounts {
				sum[class] += n
			}
		}
	}
	return added
}

// write runs fn in one transaction. fn may run several times, so each run must set all its results.
func (s *Store) write(ctx context.Context, op string, fn func(tx *sqldb.Tx) error) error {
	return s.watch(op, fn, func(fn func(*sqldb.Tx) error) error { return s.db.Write(ctx, fn) })
}

// writeClaims is write with ClaimAttempts attempts.
func (s *Store) writeClaims(ctx context.Context, op string, fn func(tx *sqldb.Tx) error) error {
	return s.watch(op, fn, func(fn func(*sqldb.Tx) error) error { return s.db.WriteUpTo(ctx, s.ClaimAttempts, fn) })
}

// read runs fn on one snapshot. fn may run several times.
func (s *Store) read(ctx context.Context, op string, fn func(tx *sqldb.Tx) error) error {
	return s.watch(op, fn, func(fn func(*sqldb.Tx) error) error { return s.db.Read(ctx, fn) })
}

// watch runs a transaction and reports it to Watch.
func (s *Store) watch(op string, fn func(*sqldb.Tx) error, carryOut func(func(*sqldb.Tx) error) error) error {
	if s.Watch == nil {
		return wrapError(carryOut(fn))
	}
	run := Run{Op: op}
	began := s.Now()
	run.Err = wrapError(carryOut(func(tx *sqldb.Tx) error {
		run.Attempts++
		return fn(tx)
	}))
	run.Took = s.Now().Sub(began)
	s.Watch(run)
	return run.Err
}

// wrapError adds the operation to an error of a transaction.
func wrapError(err error) error { return fault.Wrap("", err) }

// now returns the current time with the precision that the database can store.
func (s *Store) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// concurrent returns the Conflict placement.concurrent_update.
func concurrent(format string, args ...any) error {
	return fault.New(fault.Conflict, format, args...).WithCode(codeConcurrent)
}

// Available returns nil, or an error of kind Unavailable if the database's file was deleted or replaced, so that no
// transaction can succeed.
func (s *Store) Available() error { return s.db.Available() }

// CheckWrites returns nil if the database accepts writes. Otherwise the text of the fault Unavailable completes "the
// database takes no writes:". It waits at most for patience. It adds no row and no table, because the schema is
// OpenStack's.
func (s *Store) CheckWrites(patience time.Duration) error { return s.writes.Check(patience) }

// touch is the write that CheckWrites runs.
func (s *Store) touch(ctx context.Context) error {
	return s.write(ctx, "CheckWrites", func(tx *sqldb.Tx) error {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		return tx.Touch(ctx, "alembic_version", "version_num")
	})
}

// retryDuplicate retries the transaction if another one has inserted the same row first.
func retryDuplicate(err error) error {
	if sqldb.IsDuplicate(err) {
		return sqldb.Retry(err)
	}
	return err
}

// Claim is the new allocation of one consumer. It replaces the old allocation.
type Claim struct {
	Consumer     resource.ConsumerID
	Allocation   resource.Allocation // amounts are 1 or more; empty: all allocations are removed
	Guarded      bool                // microversion 1.28: Generation must be the consumer's
	Generation   *int                // nil: the consumer must not exist yet
	Project      string              // empty before microversion 1.8: the project and user of incomplete consumers
	User         string
	ConsumerType string // empty (before microversion 1.38) or "unknown": unchanged

	Tree      provider.ID // the root of the tree that TreeState identifies
	TreeState TreeState   // the claim is refused if allocations on the tree were removed since; empty: not checked
}
