package liveindex

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
		delta Delta
		want  bool
	}{
		{"the state that the write found", Delta{Root: "r", ID: "c", Before: 1, Reads: 7}, true},
		{"trees were read meanwhile", Delta{Root: "r", ID: "c", Before: 1, Reads: 6}, false},
		{"another process wrote before, and the index was not refreshed",
			Delta{Root: "r", ID: "c", Before: 2, Reads: 7}, false},
		{"the index has a later state", Delta{Root: "r", ID: "c", Before: 0, Reads: 7}, false},
		{"the provider was deleted", Delta{Root: "r", ID: "d", Before: 0, Reads: 7}, false},
		{"the provider has moved to another tree", Delta{Root: "q", ID: "c", Before: 1, Reads: 7},
			false},
		{"a new child", Delta{Root: "r", ID: "d", Parent: "c", Before: -1, Reads: 7}, true},
		{"a new child that is already in the index", Delta{Root: "r", ID: "c", Parent: "r", Before: -1,
			Reads: 7}, false},
		{"a new child of a provider that is not in the index",
			Delta{Root: "r", ID: "d", Parent: "x", Before: -1, Reads: 7}, false},
		{"a new child that may have been deleted again",
			Delta{Root: "r", ID: "d", Parent: "c", Before: -1, Reads: 6}, false},
		{"a new root", Delta{Root: "n", ID: "n", Before: -1, Reads: 7}, true},
		{"a new root that is already in the index", Delta{Root: "r", ID: "r", Before: -1, Reads: 7},
			false},
	} {
		if got := c.delta.applicable(s, 7); got != c.want {
			t.Errorf("%s: applicable %v, want %v", c.name, got, c.want)
		}
	}
}
