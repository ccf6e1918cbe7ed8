package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func testStandards(t *testing.T, s *Store) {
	before := dump(t, s)
	ok(t, s.Sync(t.Context()))
	equal(t, "a second Sync", diff(before, dump(t, s)), []string(nil))
	classes, err := s.Classes(t.Context())
	ok(t, err)
	for i, name := range resource.StandardClasses() {
		if classes[i].Name != name || !before[fmt.Sprintf("resource_classes c id=%d name=%s", i, name)] {
			t.Errorf("class %d is %v, want %s with id %[1]d", i, classes[i], name)
		}
	}
	traits, err := s.Traits(t.Context(), TraitFilter{})
	ok(t, err)
	equal(t, "traits and classes", []int{len(traits), len(classes)}, []int{len(resource.StandardTraits()), 21})
	if age := time.Since(traits[0].Modified); age < 0 || age > time.Hour {
		t.Errorf("age of a new trait %v", age)
	}
}

// testIncomplete checks that Sync adds the roots and consumers that releases without them did not write.
func testIncomplete(t *testing.T, s *Store) {
	host(t, s, 1, 0)
	ok(t, s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE resource_providers SET root_provider_id = NULL")
		if err == nil {
			err = insert(t.Context(), tx, "allocations", "resource_provider_id, consumer_id, resource_class_id, used",
				[][]any{{1, consumer(500), 0, 2}, {1, consumer(500), 1, 3}})
		}
		return err
	}))
	ok(t, s.Sync(t.Context()))
	held, err := s.ConsumerAllocations(t.Context(), consumer(500))
	ok(t, err)
	equal(t, "held", held.Allocation, resource.Allocation{id(1): {"VCPU": 2, "MEMORY_MB": 3}})
	equal(t, "owner", []any{held.Project, held.User, held.ConsumerType, held.Generation},
		[]any{incompleteOwner, incompleteOwner, unknownType, 0})
	ok(t, putOne(t.Context(), s, claim(500, 1, 1).seen(0)))
}
