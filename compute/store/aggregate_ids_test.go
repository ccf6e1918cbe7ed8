package store_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/compute/store"
)

// Ids of aggregates are recognised, and no others.
func TestAggregateUUIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := store.NewAggregateUUID()
		parsed, err := uuid.Parse(id)
		if err != nil || parsed.Variant() != uuid.RFC4122 || !store.IsAggregateUUID(id) || seen[id] {
			t.Fatalf("%s %v", id, err)
		}
		seen[id] = true
		if parsed[15]++; store.IsAggregateUUID(parsed.String()) || store.IsAggregateUUID(uuid.NewString()) {
			t.Fatalf("%s is recognised", parsed)
		}
	}
	if store.IsAggregateUUID("x") {
		t.Error("a text is recognised")
	}
}
