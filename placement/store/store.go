// Package store reads and writes Placement's data in SQL, in the database schema of OpenStack Placement.
//
// Berth and an original Placement can serve the same database, one after the other or at the same time: tables,
// identifiers, generations and timestamps mean the same to both. All decisions are made in SQL: every write reads
// what it depends on inside its own transaction and compares generations before it commits. So the in-memory index
// may be stale, and still no resource is allocated twice.
//
// Methods return faults. A Conflict with code placement.concurrent_update means: read again, then repeat. A Conflict
// without a code is what the API calls placement.undefined_code. A missing object that the request names in its path
// is NotFound; one that it names in its body is Invalid.
package store

import (
	"context"
	"time"

	"github.com/openberth/berth/provider"
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

	db     *sqldb.DB
	writes *sqldb.WriteCheck
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
}

// Open checks the schema of a database and returns its Store. An empty database is accepted and waits for Sync. An
// unknown revision is refused with the fault Unavailable, and nothing is written. If another process is creating the
// tables, Open waits until they are complete.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) {
	s := &Store{
		Now:               time.Now,
		IncompleteProject: incompleteOwner,
		IncompleteUser:    incompleteOwner,
		ClaimAttempts:     claimAttempts,
		db:                db,
	}
	s.writes = sqldb.NewWriteCheck(s.touch)
	err := whileCreated(ctx, func() error {
		return s.read(ctx, "Open", func(tx *sqldb.Tx) error {
			_, err := checkRevision(ctx, tx)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Create creates the schema on an empty database: the same as the original's `placement-manage db sync`. created is
// false if the schema exists already. If several processes call it at the same time, on one database or on the nodes
// of a cluster, one of them creates the schema. It returns the same faults as Open, and the errors of the database.
func (s *Store) Create(ctx context.Context) (created bool, err error) {
	err = whileCreated(ctx, func() error {
		return s.write(ctx, "Create", func(tx *sqldb.Tx) error {
			empty, err := checkRevision(ctx, tx)
			if created = err == nil && empty; created {
				err = createTables(ctx, tx)
			}
			return err
		})
	})
	return created, err
}

// Version returns the Alembic revision of the database, or "" for an empty database.
func (s *Store) Version(ctx context.Context) (version string, err error) {
	err = s.read(ctx, "Version", func(tx *sqldb.Tx) error {
		empty, err := checkRevision(ctx, tx)
		if err != nil || empty {
			return err
		}
		return tx.QueryRow(ctx, "SELECT version_num FROM alembic_version").Scan(&version)
	})
	return version, err
}

// Sync creates the schema on an empty database, adds missing standard resource classes and traits, and completes the
// data of older releases: it gives a root to providers and a consumer to allocations that have none. It can be
// repeated. It returns the same faults as Open, and the errors of the database.
func (s *Store) Sync(ctx context.Context) error {
	// A separate transaction, because CREATE TABLE ends the current transaction on MySQL.
	if _, err := s.Create(ctx); err != nil {
		return err
	}
	return s.write(ctx, "Sync", func(tx *sqldb.Tx) error {
		if err := s.addClasses(ctx, tx); err != nil {
			return err
		}
		if err := s.addTraits(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE resource_providers SET root_provider_id = id WHERE root_provider_id IS "+
			"NULL"); err != nil {
			return err
		}
		return s.addConsumers(ctx, tx)
	})
}
