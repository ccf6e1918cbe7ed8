// Package indextest compares the live index with the database in tests.
package indextest

import (
	"maps"
	"reflect"
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Compare compares a whole index with its database.
func Compare(t testing.TB, snapshot *index.Snapshot, database *store.Store) {
	t.Helper()
	count := 0
	if err := database.Trees(t.Context(), func(_ provider.ID, rows []store.Row) {
		count += len(rows)
		for _, row := range rows {
			got, ok := snapshot.Row(row.ID)
			if !ok || !reflect.DeepEqual(normalized(got), normalized(row)) {
				t.Errorf("the index has\n%+v\nthe database\n%+v", normalized(got), normalized(row))
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if n := snapshot.Providers(); n != count {
		t.Errorf("the index has %d providers, the database %d", n, count)
	}
	nodes := 0
	for tree := range snapshot.Trees() {
		nodes += len(tree.Nodes)
	}
	if nodes != count {
		t.Errorf("the trees of the index have %d providers, the database %d", nodes, count)
	}
}

// normalized removes differences without a meaning: empty and absent lists, usages of zero, and the generation, which
// in the index is that of the last read of the whole provider.
func normalized(r index.Row) index.Row {
	r.Generation = 0
	r.Used = maps.Clone(r.Used)
	maps.DeleteFunc(r.Used, func(_ resource.Class, n int) bool { return n == 0 })
	if len(r.Used) == 0 {
		r.Used = nil
	}
	if len(r.Inventories) == 0 {
		r.Inventories = nil
	}
	if len(r.Traits) == 0 {
		r.Traits = nil
	}
	if len(r.Aggregates) == 0 {
		r.Aggregates = nil
	}
	return r
}
