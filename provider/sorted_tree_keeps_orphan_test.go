package provider

import (
	"testing"
)

func TestSortedKeepsAnOrphan(t *testing.T) {
	tree := Tree{Providers: []Provider{{ID: "b", Name: "b", Parent: "gone"}, {ID: "a", Name: "a"}}}
	if got := tree.Sorted().Providers; len(got) != 2 {
		t.Fatalf("lost one: %v", got)
	}
}
