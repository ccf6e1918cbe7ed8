package server

import (
	"strings"
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// singleProvider returns the rows of a tree with one provider.
func singleProvider(id string, used int) []index.Row {
	return []index.Row{{Provider: provider.Provider{ID: provider.ID(id), Name: id, Root: provider.ID(id),
		Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)}}, Used: resource.Amounts{"VCPU": used}}}
}

func noFlush() error { return nil }

// A cached summary is used as long as its tree does not change.
func TestSummariesChangeWithTheirTrees(t *testing.T) {
	var s summaryCache
	one := index.Build(append(singleProvider("a", 0), singleProvider("b", 1)...))
	write := func(snapshot *index.Snapshot, roots ...provider.ID) string {
		var trees []*index.Tree
		for _, root := range roots {
			trees = append(trees, snapshot.Lookup(root))
		}
		var out jsonBuffer
		if err := s.write(&out, snapshot, trees, noFlush); err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	first := write(one, "a", "b")
	if !strings.Contains(first, `"used":0`) || !strings.Contains(first, `"used":1`) || !strings.Contains(first, `},"b":`) {
		t.Errorf("got %s", first)
	}
	if again := write(one, "a", "b"); again != first {
		t.Errorf("first %s, then %s", first, again)
	}
	two := one.Replace("a", singleProvider("a", 5))
	if got := write(two, "a"); !strings.Contains(got, `"used":5`) {
		t.Errorf("after a change: %s", got)
	}
	if got := write(one, "a"); !strings.Contains(got, `"used":0`) {
		t.Errorf("with the old snapshot: %s", got)
	}
}

// Summaries of deleted trees are removed from the cache.
func TestSummaryCacheIsBounded(t *testing.T) {
	var s summaryCache
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		snapshot := index.Build(singleProvider(id, 0))
		var out jsonBuffer
		if err := s.write(&out, snapshot, []*index.Tree{snapshot.Lookup(provider.ID(id))}, noFlush); err != nil {
			t.Fatal(err)
		}
		if len(s.kept) > 3 {
			t.Fatalf("the cache has %d trees, the snapshot has 1", len(s.kept))
		}
	}
	if _, kept := s.kept["f"]; !kept {
		t.Error("the newest tree is not in the cache")
	}
}
