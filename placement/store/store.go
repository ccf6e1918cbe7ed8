// Package store keeps Placement's ledger in SQL, on the very database schema of OpenStack Placement.
//
// A Berth and an original Placement may serve the same database, one after the other or side by side:
// tables, identifiers, generations and timestamps mean the same to both. SQL decides here and nowhere
// else: every write reads what it depends on inside its own transaction and compares generations before
// it ends, so the index of candidates may be stale and nothing is ever given away twice.
//
// Methods return faults. A Conflict with code placement.concurrent_update means: read again, then repeat.
// A Conflict without a code is what the API calls placement.undefined_code. A thing named in the path of a
// request is NotFound when it is missing; a thing named in its body is Invalid.
package store

import (
	"context"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// The codes of Placement's API that the faults of this package carry.
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

// Store is Placement's ledger. It is safe for concurrent use once its fields are set.
type Store struct {
	Now               func() time.Time // the clock of created_at and updated_at
	IncompleteProject string           // project of consumers that came without one: [placement]incomplete_consumer_project_id
	IncompleteUser    string           // and their user: [placement]incomplete_consumer_user_id
	ClaimAttempts     int              // how often allocations are written anew when others changed the same at the same moment: [placement]allocation_conflict_retry_count
	Watch             func(Run)        // is told of every transaction when it has ended; nil: nobody is

	db     *sqldb.DB
	writes *sqldb.WriteCheck
}

// Run is a transaction that has ended.
type Run struct {
	Op       string        // the method it is of, such as PutAllocations
	Attempts int           // how often it was carried out; 0: it could not begin
	Took     time.Duration // all attempts and the pauses between them
	Err      error
}

// Change is what a write did. Roots are the roots of all trees it touched, sorted; after a move the old and the new one.
type Change struct {
	Roots      []provider.ID
	Used       []provider.ID // when nothing but usage and generations changed: of these providers, sorted
	Generation int           // of the provider named in the call afterwards; 0 where a call names none or several
}

// Open takes a database into service. An empty database is accepted and waits for Sync; one with a revision that this
// package does not know is refused with the fault Unavailable, untouched. One whose tables somebody is just making is waited for.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) {
	s := &Store{Now: time.Now, IncompleteProject: incompleteOwner, IncompleteUser: incompleteOwner, ClaimAttempts: claimAttempts, db: db}
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

// Create makes the schema on an empty database: exactly what the original's `placement-manage db sync` makes. created is false
// when it was there already; of several that create it at the same moment, on one database or on the nodes of a cluster, one does. The fault
// is the one of Open, or what the database said.
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

// Version is the Alembic revision of the database; empty for an empty database.
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

// Sync creates the schema on an empty database, adds the standard resource classes and traits that are missing, and
// completes what older releases left behind: providers without a root, allocations without a consumer. It may be repeated.
// The fault is the one of Open, or what the database said.
func (s *Store) Sync(ctx context.Context) error {
	// In a transaction of its own: on MySQL, CREATE TABLE ends the one it is in.
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
		if _, err := tx.Exec(ctx, "UPDATE resource_providers SET root_provider_id = id WHERE root_provider_id IS NULL"); err != nil {
			return err
		}
		return s.addConsumers(ctx, tx)
	})
}
