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

// Stretch names providers whose numbers in the database lie side by side.
type Bucket int64

// stretchBits: a stretch is 64 providers. Fewer make more fingerprints to read, more make more marks to read for one change.
const bucketBits = 6

// Print is the fingerprint of a stretch. Two that are equal mean that nothing which decides about candidates has changed
// between them, whoever wrote:
//
//   - Inventories, traits and new allocations raise the generation of their provider, which never falls. So of the same
//     providers the sum of generations rises with each of them.
//   - Letting go raises none. But as long as no generation rises nothing new is allocated, so the sum of what is used can
//     only fall, and does: an allocation is of 1 or more.
//   - Which providers there are and under whom they lie is in Links, a sum of products of their numbers, which the
//     database never uses twice. (SQLite may: there Moment, the newest timestamp of a row, tells them apart.)
//   - Memberships is such a sum too: before microversion 1.19 aggregates raise no generation.
//
// Not in it: the name of a provider, which only people read, and what somebody changes by hand in SQL.
type Fingerprint struct {
	Providers                             int
	Generations, Links, Used, Memberships int64
	Newest                                string
}

// Prints are the fingerprints of the whole database at one moment.
type Fingerprints struct {
	Buckets map[Bucket]Fingerprint
	Classes   map[int64]resource.Class // all, by their numbers: a custom one may get another name
	Traits    string                   // how many there are, and which
}

// Whole is the fingerprint of all stretches together.
func (all Fingerprints) Sum() (whole Fingerprint) {
	for _, p := range all.Buckets {
		whole.add(p)
	}
	return whole
}

// printQueries are what a Print is made of: the column with the provider's number, the table, and sums over its rows.
var fingerprintQueries = []struct {
	column, table, sums string
	slots               func(*Fingerprint) []any
}{
	{"id", "resource_providers", "COUNT(*), COALESCE(SUM(generation), 0), COALESCE(SUM((id % 65521 + 1){long} * " +
		"(COALESCE(parent_provider_id, 0) % 1000003 * 31{long} + COALESCE(root_provider_id, 0) % 1000003)), 0), {moment}",
		func(p *Fingerprint) []any { return []any{&p.Providers, &p.Generations, &p.Links, &p.Newest} }},
	{"resource_provider_id", "allocations", "COALESCE(SUM(used), 0)",
		func(p *Fingerprint) []any { return []any{&p.Used} }},
	{"resource_provider_id", "resource_provider_aggregates",
		"COALESCE(SUM((resource_provider_id % 65521 + 1){long} * (aggregate_id % 1000003 + 1)), 0)",
		func(p *Fingerprint) []any { return []any{&p.Memberships} }},
}

// Prints reads the fingerprint of each stretch. When whole is set it reads a single one over all providers, which costs half and is
// what Whole makes of the others.
func (s *Store) Fingerprints(ctx context.Context, whole bool) (all Fingerprints, err error) {
	err = s.read(ctx, "Prints", func(tx *sqldb.Tx) error {
		found := map[Bucket]*Fingerprint{}
		for _, q := range fingerprintQueries {
			query := fmt.Sprintf("SELECT %s >> %d, %s FROM %s GROUP BY 1", q.column, bucketBits, q.sums, q.table)
			if whole {
				query = fmt.Sprintf("SELECT 0, %s FROM %s", q.sums, q.table)
			}
			err := queryEach(ctx, tx, inDialect(tx.Dialect, query), nil, func(rows *sql.Rows) error {
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

// spell writes the sums in a dialect. PostgreSQL counts in 32 bits unless it is told.
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
	err := queryEach(ctx, tx, "SELECT id, name FROM resource_classes", nil, func(rows *sql.Rows) error {
		var id int64
		var name resource.Class
		err := rows.Scan(&id, &name)
		found[id] = name
		return err
	})
	return found, err
}

// ClassNumbers reads the numbers of all resource classes: Prints.Classes alone.
func (s *Store) ClassNumbers(ctx context.Context) (found map[int64]resource.Class, err error) {
	err = s.read(ctx, "ClassNumbers", func(tx *sqldb.Tx) (err error) {
		found, err = readClassNumbers(ctx, tx)
		return err
	})
	return found, err
}

// Foreign gives a number that changes when somebody else has written to the database; own writes leave it. ok is false where the
// database has no such number: only SQLite has.
func (s *Store) DataVersion(ctx context.Context) (number int64, ok bool, err error) {
	number, ok, err = s.db.Foreign(ctx)
	return number, ok, fault.Wrap("", "placement.store.Foreign", err)
}
