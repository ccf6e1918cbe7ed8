package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Bucket identifies 64 providers with consecutive ids in the database.
type Bucket int64

// bucketBits is the binary logarithm of the bucket size. Smaller buckets mean more fingerprints to read; larger ones
// mean more provider versions to read for one change.
const bucketBits = 6

// Fingerprint is the fingerprint of a bucket. If two fingerprints are equal, nothing that affects candidates has
// changed between them, by any writer:
//
//   - Inventories, traits and new allocations raise the generation of their provider, which never decreases. So each
//     of them increases the sum of generations of the same providers.
//   - Removing an allocation raises no generation. But as long as no generation rises, nothing is allocated, so the
//     sum of usage can only decrease; it does, because an allocation is at least 1.
//   - Links is a sum of products of the ids of providers, parents and roots, so it changes with the set of providers
//     and with their parents. Databases never reuse an id. (SQLite can: there Newest, the newest timestamp of a row,
//     differs.)
//   - Memberships is such a sum too: before microversion 1.19 a change of aggregates raises no generation.
//
// It does not cover the name of a provider, which no decision depends on, and manual changes in SQL.
type Fingerprint struct {
	Providers                             int
	Generations, Links, Used, Memberships int64
	Newest                                string
}

// Fingerprints are the fingerprints of the whole database in one snapshot.
type Fingerprints struct {
	Buckets map[Bucket]Fingerprint
	Classes map[int64]resource.Class // all classes by id: a custom class can be renamed
	Traits  string                   // number and sum of the ids of all traits
}

// Sum returns the fingerprint of all buckets together.
func (all Fingerprints) Sum() (whole Fingerprint) {
	for _, p := range all.Buckets {
		whole.add(p)
	}
	return whole
}

// fingerprintQueries compute a Fingerprint: the column with the provider's id, the table, and sums over its rows.
var fingerprintQueries = []struct {
	column, table, sums string
	slots               func(*Fingerprint) []any
}{
	{"id", "resource_providers", "COUNT(*), COALESCE(SUM(generation), 0), COALESCE(SUM((id % 65521 + 1){long} * " +
		"(COALESCE(parent_provider_id, 0) % 1000003 * 31{long} + COALESCE(root_provider_id, 0) % 1000003)), 0), " +
		"{moment}",
		func(p *Fingerprint) []any { return []any{&p.Providers, &p.Generations, &p.Links, &p.Newest} }},
	{"resource_provider_id", "allocations", "COALESCE(SUM(used), 0)",
		func(p *Fingerprint) []any { return []any{&p.Used} }},
	{"resource_provider_id", "resource_provider_aggregates",
		"COALESCE(SUM((resource_provider_id % 65521 + 1){long} * (aggregate_id % 1000003 + 1)), 0)",
		func(p *Fingerprint) []any { return []any{&p.Memberships} }},
}

// Fingerprints reads the fingerprint of each bucket. If whole is set, it reads a single fingerprint of all providers:
// half the cost, and equal to the Sum of the others.
func (s *Store) Fingerprints(ctx context.Context, whole bool) (all Fingerprints, err error) {
	err = s.read(ctx, "Prints", func(tx *sqldb.Tx) error {
		found := map[Bucket]*Fingerprint{}
		for _, q := range fingerprintQueries {
			query := fmt.Sprintf("SELECT %s >> %d, %s FROM %s GROUP BY 1", q.column, bucketBits, q.sums, q.table)
			if whole {
				query = fmt.Sprintf("SELECT 0, %s FROM %s", q.sums, q.table)
			}
			err := sqldb.QueryEach(ctx, tx, inDialect(tx.Dialect, query), nil, func(rows *sql.Rows) error {
				var at Bucket
				var p Fingerprint
				if err := rows.Scan(append([]any{&at}, q.slots(&p)...)...); err != nil {
					return err
				}
				if found[at] == nil {
					found[at] = &Fingerprint{}
				}
				found[at].add(p)
				return nil
			})
			if err != nil {
				return err
			}
		}
		all = Fingerprints{Buckets: make(map[Bucket]Fingerprint, len(found))}
		for at, p := range found {
			all.Buckets[at] = *p
		}
		return all.readNames(ctx, tx)
	})
	return all, err
}

func (p *Fingerprint) add(more Fingerprint) {
	p.Providers += more.Providers
	p.Generations += more.Generations
	p.Links += more.Links
	p.Used += more.Used
	p.Memberships += more.Memberships
	p.Newest = max(p.Newest, more.Newest)
}

// inDialect writes the sums in a dialect. PostgreSQL needs a cast to compute in 64 bits.
func inDialect(dialect sqldb.Dialect, query string) string {
	long, moment := "", "''"
	switch dialect {
	case sqldb.PostgreSQL:
		long = "::bigint"
	case sqldb.SQLite:
		moment = "COALESCE(MAX(COALESCE(updated_at, created_at)), '')"
	}
	return strings.NewReplacer("{long}", long, "{moment}", moment).Replace(query)
}

func (all *Fingerprints) readNames(ctx context.Context, tx *sqldb.Tx) (err error) {
	if all.Classes, err = readClassNumbers(ctx, tx); err != nil {
		return err
	}
	var count, sum int64
	err = tx.QueryRow(ctx, "SELECT COUNT(*), COALESCE(SUM(id), 0) FROM traits").Scan(&count, &sum)
	all.Traits = fmt.Sprint(count, " ", sum)
	return err
}

func readClassNumbers(ctx context.Context, tx *sqldb.Tx) (map[int64]resource.Class, error) {
	found := map[int64]resource.Class{}
	err := sqldb.QueryEach(ctx, tx, "SELECT id, name FROM resource_classes", nil, func(rows *sql.Rows) error {
		var id int64
		var name resource.Class
		err := rows.Scan(&id, &name)
		found[id] = name
		return err
	})
	return found, err
}

// ClassNumbers reads the ids of all resource classes: only Fingerprints.Classes.
func (s *Store) ClassNumbers(ctx context.Context) (found map[int64]resource.Class, err error) {
	err = s.read(ctx, "ClassNumbers", func(tx *sqldb.Tx) (err error) {
		found, err = readClassNumbers(ctx, tx)
		return err
	})
	return found, err
}

// Written calls each soon after a write to an SQLite database, of this process or another, until ctx ends; it may miss
// one. For other databases it returns at once.
func (s *Store) Written(ctx context.Context, each func()) { s.db.Written(ctx, each) }

// DataVersion returns a number that changes when another process has written to the database; the Store's own writes
// do not change it. ok is false if the database has no such number: only SQLite has one.
func (s *Store) DataVersion(ctx context.Context) (number int64, ok bool, err error) {
	if number, ok, err = s.db.DataVersion(ctx); err == nil && ok {
		s.states.sawForeign(number)
	}
	return number, ok, fault.Wrap("", err)
}
