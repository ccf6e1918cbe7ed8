package server

import (
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
)

// A patch is applied only to what the write found; in every other case the tree is read.
func TestPatchesThatDoNotFit(t *testing.T) {
	row := func(id, parent provider.ID, generation int) index.Row {
		return index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: parent, Root: "r", Generation: generation}}
	}
	s := index.Build([]index.Row{row("r", "", 3), row("c", "r", 1)})
	for _, c := range []struct {
		what string
		p    patch
		fits bool
	}{
		{"as the write found it", patch{root: "r", id: "c", before: 1, seen: 7}, true},
		{"trees were read meanwhile", patch{root: "r", id: "c", before: 1, seen: 6}, false},
		{"somebody wrote before, and the index has not heard", patch{root: "r", id: "c", before: 2, seen: 7}, false},
		{"the index has a later state", patch{root: "r", id: "c", before: 0, seen: 7}, false},
		{"it is no longer there", patch{root: "r", id: "d", before: 0, seen: 7}, false},
		{"it is in another tree by now", patch{root: "q", id: "c", before: 1, seen: 7}, false},
		{"a new child", patch{root: "r", id: "d", parent: "c", before: -1, seen: 7}, true},
		{"a new child that is there already", patch{root: "r", id: "c", parent: "r", before: -1, seen: 7}, false},
		{"a new child under one that the index does not have", patch{root: "r", id: "d", parent: "x", before: -1, seen: 7}, false},
		{"a new child that may have been removed again", patch{root: "r", id: "d", parent: "c", before: -1, seen: 6}, false},
		{"a new root", patch{root: "n", id: "n", before: -1, seen: 7}, true},
		{"a new root that is there already", patch{root: "r", id: "r", before: -1, seen: 7}, false},
	} {
		if got := c.p.fits(s, 7); got != c.fits {
			t.Errorf("%s: fits %v", c.what, got)
		}
	}
}
