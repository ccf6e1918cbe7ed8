package liveindex

import (
	"fmt"
	"slices"
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

// usage encodes the usage of the provider of a tree, such as a:5.
func usage(s *index.Snapshot, tree *index.Tree) []byte {
	return fmt.Appendf(nil, "%s:%d", tree.Root, s.Tree(tree.Root)[0].Used["VCPU"])
}

// A cached summary is used as long as its tree does not change.
func TestSummariesChangeWithTheirTrees(t *testing.T) {
	var s Summaries
	made := 0
	of := func(snapshot *index.Snapshot, roots ...provider.ID) string {
		var trees []*index.Tree
		for _, root := range roots {
			trees = append(trees, snapshot.Lookup(root))
		}
		var texts []string
		for text := range s.Of(snapshot, trees, func(s *index.Snapshot, tree *index.Tree) []byte {
			made++
			return usage(s, tree)
		}) {
			texts = append(texts, string(text))
		}
		return strings.Join(texts, " ")
	}
	one := index.Build(append(singleProvider("a", 0), singleProvider("b", 1)...))
	two := one.Replace("a", singleProvider("a", 5))
	got := []string{of(one, "a", "b"), of(one, "a", "b"), of(two, "a"), of(one, "a")}
	if want := []string{"a:0 b:1", "a:0 b:1", "a:5", "a:0"}; !slices.Equal(got, want) || made != 4 {
		t.Errorf("%q with %d encoded trees, want %q with 4", got, made, want)
	}
}

// Summaries of deleted trees are removed from the cache.
func TestSummaryCacheIsBounded(t *testing.T) {
	var s Summaries
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		snapshot := index.Build(singleProvider(id, 0))
		for range s.Of(snapshot, []*index.Tree{snapshot.Lookup(provider.ID(id))}, usage) {
			break // what was encoded is kept, although the answer ends
		}
		if len(s.kept) > 3 {
			t.Fatalf("the cache has %d trees, the snapshot has 1", len(s.kept))
		}
	}
	if _, kept := s.kept["f"]; !kept {
		t.Error("the newest tree is not in the cache")
	}
}
