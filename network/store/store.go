// Package store stores the state of the network service in SQL: networks, subnets, ports, QoS policies, agents.
//
// Each object is one JSON record; columns duplicate what queries filter by. Every writing
// transaction first increments a counter in the row of the cloud, so at most one runs at a time, on every database:
// what a transaction reads stays true until its commit. The counter is the revision of the objects that the transaction
// writes, and agents ask for ports that have changed since a revision.
package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Store is the database of the network service. It is safe for concurrent use.
type Store struct {
	// KeptRemovals is how many revisions the removal of a port from a host is kept for the host's agent.
	KeptRemovals int64

	db     *sqldb.DB
	writes *sqldb.WriteCheck

	mu     sync.Mutex
	lowest map[string]lowest // by subnet
}

// Open migrates the tables and returns the store. The caller closes the database.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) {
	if err := sqldb.Migrate(ctx, db, "network_schema", schema, "network_versions"); err != nil {
		return nil, fault.Wrap("", err)
	}
	s := &Store{db: db, KeptRemovals: 100_000, lowest: map[string]lowest{}}
	s.writes = sqldb.NewWriteCheck(func(ctx context.Context) error {
		return db.Write(ctx, func(tx *sqldb.Tx) error { return tx.Touch(ctx, "network_cloud", "id") })
	})
	return s, fault.Wrap("", db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.InsertIgnore(ctx, `INSERT INTO network_cloud (one, id, revision) VALUES (1, ?, 0)`, NewUUID())
		return err
	}))
}

// Available returns nil, or fault.Unavailable if the database file was deleted or replaced.
func (s *Store) Available() error { return s.db.Available() }

// CheckWrites returns nil if the database accepts writes of this process, otherwise fault.Unavailable, whose text
// completes "the database takes no writes:". It returns after at most patience.
func (s *Store) CheckWrites(patience time.Duration) error { return s.writes.Check(patience) }

// Tx is a transaction. Revision is that of the objects it writes; a Read has none, see Newest.
type Tx struct {
	Revision int64
	store    *Store
	tx       *sqldb.Tx
	lowest   map[string]lowest // of subnets in which addresses were taken
	released []FixedIP         // also those that a port gets again
}

// joined is the key of the transaction that Together has put into a context.
type joined struct{ *Store }

// Together runs a function in one writing transaction; the function may run more than once. Each Read and Write with
// its context is part of that transaction, so all of them are committed, or none.
func (s *Store) Together(ctx context.Context, do func(ctx context.Context) error) error {
	return s.Write(ctx, func(tx *Tx) error { return do(context.WithValue(ctx, joined{s}, tx)) })
}

// Read runs a function on one consistent snapshot; the function may run more than once.
func (s *Store) Read(ctx context.Context, do func(*Tx) error) error {
	if tx, ok := ctx.Value(joined{s}).(*Tx); ok {
		return do(tx)
	}
	return s.db.Read(ctx, func(tx *sqldb.Tx) error { return do(&Tx{store: s, tx: tx}) })
}

// Newest returns the revision of the newest object.
func (tx *Tx) Newest(ctx context.Context) (revision int64, err error) {
	row := tx.tx.QueryRow(ctx, `SELECT revision FROM network_cloud WHERE one = 1`)
	return revision, row.Scan(&revision)
}

// ReadOne is Read for a function that runs one statement. It saves the other two statements of a transaction that only
// reads.
func (s *Store) ReadOne(ctx context.Context, do func(*Tx) error) error {
	if tx, ok := ctx.Value(joined{s}).(*Tx); ok {
		return do(tx)
	}
	return s.db.ReadOne(ctx, func(tx *sqldb.Tx) error { return do(&Tx{store: s, tx: tx}) })
}

// Write runs a function in a transaction while no other one writes; the function may run more than once.
func (s *Store) Write(ctx context.Context, do func(*Tx) error) error {
	if tx, ok := ctx.Value(joined{s}).(*Tx); ok {
		return do(tx)
	}
	var t *Tx // of the last attempt
	err := s.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE network_cloud SET revision = revision + 1 WHERE one = 1`); err != nil {
			return err
		}
		t = &Tx{store: s, tx: tx}
		if t.Revision, err = t.Newest(ctx); err != nil {
			return err
		}
		return do(t)
	})
	if err == nil {
		s.keepLowest(t)
	}
	return err
}

// NewUUID returns a random UUID (RFC 9562, version 4).
func NewUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
