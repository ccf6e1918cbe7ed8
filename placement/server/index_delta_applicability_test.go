package server

import (
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// A delta is applied only if the index has the state that the write found. Otherwise the tree is read.
func TestApplicableDeltas(t *testing.T) {
	row := func(id, parent provider.ID, generation int) index.Row {
		return index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: parent, Root: "r",
			Generation: generation}}
	}
	s := index.Build([]index.Row{row("r", "", 3), row("c", "r", 1)})
	for _, c := range []struct {
		name  string
		delta indexDelta
		want  bool
	}{
		{"the state that the write found", indexDelta{root: "r", id: "c", generationBefore: 1, readsBefore: 7}, true},
		{"trees were read meanwhile", indexDelta{root: "r", id: "c", generationBefore: 1, readsBefore: 6}, false},
		{"another process wrote before, and the index was not refreshed",
			indexDelta{root: "r", id: "c", generationBefore: 2, readsBefore: 7}, false},
		{"the index has a later state", indexDelta{root: "r", id: "c", generationBefore: 0, readsBefore: 7}, false},
		{"the provider was deleted", indexDelta{root: "r", id: "d", generationBefore: 0, readsBefore: 7}, false},
		{"the provider has moved to another tree", indexDelta{root: "q", id: "c", generationBefore: 1, readsBefore: 7},
			false},
		{"a new child", indexDelta{root: "r", id: "d", parent: "c", generationBefore: -1, readsBefore: 7}, true},
		{"a new child that is already in the index", indexDelta{root: "r", id: "c", parent: "r", generationBefore: -1,
			readsBefore: 7}, false},
		{"a new child of a provider that is not in the index",
			indexDelta{root: "r", id: "d", parent: "x", generationBefore: -1, readsBefore: 7}, false},
		{"a new child that may have been deleted again",
			indexDelta{root: "r", id: "d", parent: "c", generationBefore: -1, readsBefore: 6}, false},
		{"a new root", indexDelta{root: "n", id: "n", generationBefore: -1, readsBefore: 7}, true},
		{"a new root that is already in the index", indexDelta{root: "r", id: "r", generationBefore: -1, readsBefore: 7},
			false},
	} {
		if got := c.delta.applicable(s, 7); got != c.want {
			t.Errorf("%s: applicable %v, want %v", c.name, got, c.want)
		}
	}
}
