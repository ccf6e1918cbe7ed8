package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// tables lists the tables of the schema.
var tables = []string{
	"alembic_version",
	"allocations",
	"inventories",
	"resource_provider_aggregates",
	"placement_aggregates",
	"resource_provider_traits",
	"consumers",
	"consumer_types",
	"projects",
	"users",
	"traits",
	"resource_classes",
	"resource_providers",
}

// TestStore runs the suite on every supported database.
func TestStore(t *testing.T) {
	suite := map[string]func(t *testing.T, s *Store){
		"standards": testStandards, "providers": testProviders, "filters": testFilters, "move": testMove,
		"deleteProvider": testDeleteProvider,
		"inventories":    testInventories, "traits": testTraits, "classes": testClasses,
		"classRace": testClassRace, "traitRace": testTraitRace, "aggregates": testAggregates,
		"claims": testClaims, "refusals": testRefusals, "guards": testGuards,
		"manyConsumers": testManyConsumers, "reshape": testReshape,
		"usages": testUsages, "incomplete": testIncomplete, "rows": testRows, "race": testRace, "diff": testDiff,
		"moveRace": testMoveRace, "fingerprints": testFingerprints, "buckets": testBuckets,
	}
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		for _, part := range slices.Sorted(maps.Keys(suite)) {
			t.Run(part, func(t *testing.T) { suite[part](t, openStore(t, fresh(t))) })
		}
		t.Run("raceOfTwoStores", func(t *testing.T) { // two servers on one database
			url := fresh(t)
			race(t, openStore(t, url), openStore(t, url))
		})
	})
}

func openDB(t testing.TB, url string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	ok(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func openStore(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), openDB(t, url))
	ok(t, err)
	ok(t, s.Sync(t.Context()))
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns v, or panics if err is an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// refused checks the kind and the code of a fault, and that its text contains a word.
func refused(t *testing.T, err error, kind fault.Kind, code, word string) {
	t.Helper()
	if !fault.Is(err, kind) || fault.CodeOf(err) != code || !strings.Contains(fault.TextOf(err), word) {
		t.Fatalf("got %q %q: %v\nwant %q %q with %q", fault.KindOf(err), fault.CodeOf(err), err, kind, code, word)
	}
}

// id returns the UUID for a number: below 100 for providers, from 500 for consumers, from 900 for aggregates.
func id(n int) provider.ID { return provider.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

func consumer(n int) resource.ConsumerID { return resource.ConsumerID(id(n)) }

func aggregate(n int) resource.AggregateID { return resource.AggregateID(id(n)) }

type inventory = map[resource.Class]resource.Inventory

// host creates provider n with 10 VCPU and 100 MEMORY_MB, at generation 1.
func host(t *testing.T, s *Store, n, parent int) {
	t.Helper()
	var under provider.ID
	if parent > 0 {
		under = id(parent)
	}
	_, _, err := s.CreateProvider(t.Context(), id(n), fmt.Sprint("p", n), under)
	ok(t, err)
	_, err = s.ReplaceInventories(t.Context(), id(n), 0,
		inventory{"VCPU": resource.Whole(10), "MEMORY_MB": resource.Whole(100)})
	ok(t, err)
}

func generation(t *testing.T, s *Store, n int) int {
	t.Helper()
	p, err := s.Provider(t.Context(), id(n))
	ok(t, err)
	return p.Generation
}

// claim returns a claim of VCPU on one provider for consumer n.
func claim(n, on, amount int) Claim {
	return Claim{Consumer: consumer(n), Allocation: resource.Allocation{id(on): {"VCPU": amount}}, Guarded: true,
		Project: "project", User: "user", ConsumerType: "INSTANCE"}
}

func (c Claim) seen(generation int) Claim {
	c.Generation = &generation
	return c
}

// dump formats every row of every table. In place of timestamps it has c if created_at is set, and u if updated_at is.
func dump(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	ok(t, s.db.Read(t.Context(), func(tx *sqldb.Tx) error {
		for _, table := range tables {
			rows, err := tx.Query(t.Context(), "SELECT * FROM "+table)
			if err != nil {
				return err
			}
			columns := must(rows.Columns())
			for rows.Next() {
				values := make([]any, len(columns))
				for i := range values {
					values[i] = new(any)
				}
				if err := rows.Scan(values...); err != nil {
					return err
				}
				all[table+formatRow(columns, values)] = true
			}
			if err := rows.Err(); err != nil {
				return err
			}
			rows.Close()
		}
		return nil
	}))
	return all
}

func formatRow(columns []string, values []any) string {
	var b strings.Builder
	for i, column := range columns {
		value := *values[i].(*any)
		if raw, ok := value.([]byte); ok {
			value = string(raw)
		}
		switch {
		case value == nil:
		case column == "created_at" || column == "updated_at":
			b.WriteString(" " + column[:1])
		default:
			fmt.Fprintf(&b, " %s=%v", column, value)
		}
	}
	return b.String()
}

// diff returns the rows that were removed (-) and added (+) between two dumps, sorted.
func diff(before, after map[string]bool) (list []string) {
	for row := range before {
		if !after[row] {
			list = append(list, "- "+row)
		}
	}
	for row := range after {
		if !before[row] {
			list = append(list, "+ "+row)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(a[2:]+a[:1], b[2:]+b[:1]) })
	return list
}

func testStandards(t *testing.T, s *Store) {
	before := dump(t, s)
	ok(t, s.Sync(t.Context()))
	equal(t, "a second Sync", diff(before, dump(t, s)), []string(nil))
	classes, err := s.Classes(t.Context())
	ok(t, err)
	for i, name := range resource.StandardClasses() {
		if classes[i].Name != name || !before[fmt.Sprintf("resource_classes c id=%d name=%s", i, name)] {
			t.Errorf("class %d is %v, want %s with id %[1]d", i, classes[i], name)
		}
	}
	traits, err := s.Traits(t.Context(), TraitFilter{})
	ok(t, err)
	equal(t, "traits and classes", []int{len(traits), len(classes)}, []int{len(resource.StandardTraits()), 21})
	if age := time.Since(traits[0].Modified); age < 0 || age > time.Hour {
		t.Errorf("age of a new trait %v", age)
	}
}

// testIncomplete checks that Sync adds the roots and consumers that releases without them did not write.
func testIncomplete(t *testing.T, s *Store) {
	host(t, s, 1, 0)
	ok(t, s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE resource_providers SET root_provider_id = NULL")
		if err == nil {
			err = insert(t.Context(), tx, "allocations", "resource_provider_id, consumer_id, resource_class_id, used",
				[][]any{{1, consumer(500), 0, 2}, {1, consumer(500), 1, 3}})
		}
		return err
	}))
	ok(t, s.Sync(t.Context()))
	held, err := s.ConsumerAllocations(t.Context(), consumer(500))
	ok(t, err)
	equal(t, "held", held.Allocation, resource.Allocation{id(1): {"VCPU": 2, "MEMORY_MB": 3}})
	equal(t, "owner", []any{held.Project, held.User, held.ConsumerType, held.Generation},
		[]any{incompleteOwner, incompleteOwner, unknownType, 0})
	ok(t, putOne(t.Context(), s, claim(500, 1, 1).seen(0)))
}

func putOne(ctx context.Context, s *Store, c Claim) error {
	_, err := s.PutAllocations(ctx, c)
	return err
}
