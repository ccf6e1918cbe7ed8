package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/sqldb"
)

// TestStore runs the suite on every supported database.
func TestStore(t *testing.T) {
	suite := map[string]func(t *testing.T, s *Store){
		"standards": testStandards, "providers": testProviders, "filters": testFilters, "move": testMove,
		"deleteProvider": testDeleteProvider,
		"inventories":    testInventories, "traits": testTraits, "classes": testClasses,
		"classRace": testClassRace, "traitRace": testTraitRace, "aggregates": testAggregates,
		"claims": testClaims, "overCapacity": testOverCapacity, "refusals": testRefusals, "guards": testGuards,
		"manyConsumers": testManyConsumers, "reshape": testReshape,
		"usages": testUsages, "history": testHistory, "treeState": testTreeState,
		"incomplete": testIncomplete, "rows": testRows, "race": testRace, "diff": testDiff,
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
		t.Run("historyOfTwoStores", func(t *testing.T) {
			url := fresh(t)
			historyRace(t, openStore(t, url), openStore(t, url))
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
