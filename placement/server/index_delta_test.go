package server

import (
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// A delta is applied only to the state that the write found; otherwise the tree is read.
func TestDeltasThatAreNotApplicable(t *testing.T) {
	row := func(id, parent provider.ID, generation int) index.Row {
		return index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: parent, Root: "r",
			Generation: generation}}
	}
	s := index.Build([]index.Row{row("r", "", 3), row("c", "r", 1)})
	for _, c := range []struct {
		what string
		p    indexDelta
		fits bool
	}{
		{"as the write found it", indexDelta{root: "r", id: "c", generationBefore: 1, readsBefore: 7}, true},
		{"trees were read meanwhile", indexDelta{root: "r", id: "c", generationBefore: 1, readsBefore: 6}, false},
		{"another process wrote before, and the index was not refreshed",
			indexDelta{root: "r", id: "c", generationBefore: 2, readsBefore: 7}, false},
		{"the index has a later state", indexDelta{root: "r", id: "c", generationBefore: 0, readsBefore: 7}, false},
		{"it is no longer there", indexDelta{root: "r", id: "d", generationBefore: 0, readsBefore: 7}, false},
		{"it is in another tree by now", indexDelta{root: "q", id: "c", generationBefore: 1, readsBefore: 7}, false},
		{"a new child", indexDelta{root: "r", id: "d", parent: "c", generationBefore: -1, readsBefore: 7}, true},
		{"a new child that is there already", indexDelta{root: "r", id: "c", parent: "r", generationBefore: -1,
			readsBefore: 7}, false},
		{"a new child under one that the index does not have",
			indexDelta{root: "r", id: "d", parent: "x", generationBefore: -1, readsBefore: 7}, false},
		{"a new child that may have been removed again",
			indexDelta{root: "r", id: "d", parent: "c", generationBefore: -1, readsBefore: 6}, false},
		{"a new root", indexDelta{root: "n", id: "n", generationBefore: -1, readsBefore: 7}, true},
		{"a new root that is there already", indexDelta{root: "r", id: "r", generationBefore: -1, readsBefore: 7}, false},
	} {
		if got := c.p.applicable(s, 7); got != c.fits {
			t.Errorf("%s: fits %v", c.what, got)
		}
	}
}
