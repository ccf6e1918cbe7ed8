package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func testClaims(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	host(t, s, 2, 1)
	host(t, s, 3, 0)
	c := claim(500, 1, 2)
	c.Allocation[id(2)] = resource.Amounts{"VCPU": 1, "MEMORY_MB": 5}
	change, err := s.PutAllocations(ctx, c)
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1)}, Used: []provider.ID{id(1), id(2)},
		Added: map[provider.ID]UsageChange{id(1): {Amounts: resource.Amounts{"VCPU": 2}, Raised: 1},
			id(2): {Amounts: resource.Amounts{"VCPU": 1, "MEMORY_MB": 5}, Raised: 1}}})
	uses, err := s.Uses(ctx, id(1), id(2), id(3), id(9))
	ok(t, err)
	equal(t, "uses", uses,
		map[provider.ID]resource.Amounts{id(1): {"VCPU": 2}, id(2): {"VCPU": 1, "MEMORY_MB": 5}, id(3): {}})
	equal(t, "generations", []int{generation(t, s, 1), generation(t, s, 2), generation(t, s, 3)}, []int{2, 2, 1})
	held, err := s.ConsumerAllocations(ctx, consumer(500))
	ok(t, err)
	equal(t, "held", held.Allocation, c.Allocation)
	equal(t, "owner",
		[]any{held.Project, held.User, held.ConsumerType, held.Generation, held.Generations, held.Modified.IsZero()},
		[]any{"project", "user", "INSTANCE", 1, map[provider.ID]int{id(1): 2, id(2): 2}, false})
	shares, err := s.ProviderAllocations(ctx, id(2))
	ok(t, err)
	equal(t, "shares", []any{shares.Generation, shares.Shares}, []any{2, map[resource.ConsumerID]ProviderShare{
		consumer(500): {
			Amounts:    resource.Amounts{"VCPU": 1, "MEMORY_MB": 5},
			Generation: 1,
			Project:    "project",
			User:       "user",
		}}})

	// A claim on another tree, with another owner and type: the released providers keep their generations.
	c = claim(500, 3, 10).seen(1)
	c.Project, c.User, c.ConsumerType = "project2", "user2", "MIGRATION"
	change, err = s.PutAllocations(ctx, c)
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1), id(3)}, Used: []provider.ID{id(1), id(2), id(3)}})
	equal(t, "generations", []int{generation(t, s, 1), generation(t, s, 2), generation(t, s, 3)}, []int{2, 2, 2})
	held, err = s.ConsumerAllocations(ctx, consumer(500))
	ok(t, err)
	equal(t, "held", []any{held.Allocation, held.Project, held.User, held.ConsumerType, held.Generation},
		[]any{c.Allocation, "project2", "user2", "MIGRATION", 2})

	// The same claim again fits although the provider is full, because it replaces the consumer's own allocation.
	c = claim(500, 3, 10).seen(2)
	c.ConsumerType = ""
	ok(t, putOne(ctx, s, c))
	held, err = s.ConsumerAllocations(ctx, consumer(500))
	ok(t, err)
	equal(t, "held", []any{held.Project, held.ConsumerType, held.Generation}, []any{"project", "MIGRATION", 3})

	// An empty claim deletes the consumer and raises the generation of the released provider.
	c = claim(500, 3, 1).seen(3)
	c.Allocation = nil
	change, err = s.PutAllocations(ctx, c)
	ok(t, err)
	equal(t, "change", []any{change.Roots, generation(t, s, 3)}, []any{[]provider.ID{id(3)}, 4})
	held, err = s.ConsumerAllocations(ctx, consumer(500))
	ok(t, err)
	equal(t, "held", held,
		ConsumerAllocation{Consumer: consumer(500), Allocation: resource.Allocation{}, Generations: map[provider.ID]int{}})
	ok(t, putOne(ctx, s, claim(500, 3, 1))) // the consumer does not exist: no generation

	change, err = s.DeleteAllocations(ctx, consumer(500))
	ok(t, err)
	equal(t, "change", []any{change.Roots, generation(t, s, 3)}, []any{[]provider.ID{id(3)}, 5})
	_, err = s.DeleteAllocations(ctx, consumer(500))
	refused(t, err, fault.NotFound, "", string(consumer(500)))
	ok(t, putOne(ctx, s, claim(500, 3, 1))) // the consumer does not exist: no generation
}

func testRefusals(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	ok(t, putOne(ctx, s, claim(500, 1, 7)))
	_, err := s.AddInventory(ctx, id(1), "DISK_GB",
		resource.Inventory{Total: 100, MinUnit: 10, MaxUnit: 50, StepSize: 10, AllocationRatio: 1})
	ok(t, err)
	before := dump(t, s)
	for _, c := range []struct {
		on    provider.ID
		class resource.Class
		n     int
		kind  fault.Kind
		word  string
	}{
		{id(1), "VCPU", 4, fault.Conflict, "asks 4, 3 of 10 free"},
		{id(1), "DISK_GB", 5, fault.Conflict, "smallest share is 10"},
		{id(1), "DISK_GB", 60, fault.Conflict, "largest share is 50"},
		{id(1), "DISK_GB", 15, fault.Conflict, "steps of 10"},
		{id(1), "VGPU", 1, fault.Conflict, "no inventory of VGPU"},
		{id(9), "VCPU", 1, fault.Invalid, "no resource provider " + string(id(9))},
		{id(1), "CUSTOM_NO", 1, fault.Invalid, "no resource class CUSTOM_NO"},
		{id(1), "VCPU", 0, fault.Invalid, "1 or more"},
	} {
		ask := claim(501, 1, 1)
		ask.Project, ask.Allocation = "other", resource.Allocation{c.on: {c.class: c.n}}
		refused(t, putOne(ctx, s, ask), c.kind, "", c.word)
	}
	_, err = s.PutAllocations(ctx, claim(501, 1, 2), claim(502, 1, 2))
	refused(t, err, fault.Conflict, "", "asks 2, 1 of 10 free")
	_, err = s.PutAllocations(ctx, claim(501, 1, 1), claim(501, 1, 2))
	refused(t, err, fault.Invalid, "", "twice")
	equal(t, "changes by refused writes", diff(before, dump(t, s)), []string(nil))
}

func testGuards(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	refused(t, putOne(ctx, s, claim(500, 1, 1).seen(0)), fault.Conflict, codeConcurrent, "null, not 0")
	ok(t, putOne(ctx, s, claim(500, 1, 1)))
	refused(t, putOne(ctx, s, claim(500, 1, 1)), fault.Conflict, codeConcurrent, "generation 1, not null")
	refused(t, putOne(ctx, s, claim(500, 1, 1).seen(2)), fault.Conflict, codeConcurrent, "generation 1 now, not 2")
	old := claim(500, 1, 3) // as before 1.28: no generation; as before 1.8: no owner
	old.Guarded, old.Project, old.User, old.ConsumerType = false, "", "", ""
	ok(t, putOne(ctx, s, old))
	held, err := s.ConsumerAllocations(ctx, consumer(500))
	ok(t, err)
	equal(t, "held", []any{held.Generation, held.Project, held.User, held.ConsumerType},
		[]any{2, incompleteOwner, incompleteOwner, "INSTANCE"})
	nothing := claim(501, 1, 1) // of a consumer that does not exist
	nothing.Allocation = nil
	before := dump(t, s)
	ok(t, putOne(ctx, s, nothing))
	equal(t, "changes by an empty claim", diff(before, dump(t, s)), []string(nil))
}

// testManyConsumers moves an allocation from one consumer to another in one request, as a migration does, on a provider
// without capacity for both.
func testManyConsumers(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	host(t, s, 2, 0)
	ok(t, putOne(ctx, s, claim(500, 1, 10)))
	change, err := s.PutAllocations(ctx, claim(501, 1, 10), claim(500, 2, 10).seen(1))
	ok(t, err)
	equal(t, "change", change, Change{Roots: []provider.ID{id(1), id(2)}, Used: []provider.ID{id(1), id(2)}})
	gone := claim(501, 1, 10).seen(1)
	gone.Allocation = nil
	_, err = s.PutAllocations(ctx, gone, claim(500, 1, 10).seen(2))
	ok(t, err)
	used, err := s.ProviderUsages(ctx, id(1))
	ok(t, err)
	equal(t, "used", used, ProviderUsages{Generation: 4, Used: resource.Amounts{"VCPU": 10, "MEMORY_MB": 0}})

	var many []Claim
	for n := range 1200 { // more than fit into one statement
		c := claim(10000+n, 2, 1)
		c.Allocation = resource.Allocation{id(3): {"VCPU": 1}}
		many = append(many, c)
	}
	host(t, s, 3, 0)
	_, err = s.ReplaceInventories(ctx, id(3), 1,
		inventory{"VCPU": {Total: 1200, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}})
	ok(t, err)
	_, err = s.PutAllocations(ctx, many...)
	ok(t, err)
	used, err = s.ProviderUsages(ctx, id(3))
	ok(t, err)
	equal(t, "used", used, ProviderUsages{Generation: 3, Used: resource.Amounts{"VCPU": 1200}})
}

// race claims one unit for each of 32 consumers, at the same time and through all of these stores, on a provider with
// 10 units. Exactly 10 claims succeed.
func race(t *testing.T, stores ...*Store) {
	s := stores[0]
	host(t, s, 1, 0)
	errs := make([]error, 32)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range 10 { // concurrent_update asks the client to repeat the request
				errs[i] = putOne(t.Context(), stores[i%len(stores)], claim(500+i, 1, 1))
				if fault.CodeOf(errs[i]) != codeConcurrent {
					return
				}
			}
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			refused(t, err, fault.Conflict, "", "asks 1, 0 of 10 free")
		}
	}
	used, err := s.ProviderUsages(t.Context(), id(1))
	ok(t, err)
	equal(t, "won and used", []any{won, used},
		[]any{10, ProviderUsages{Generation: 11, Used: resource.Amounts{"VCPU": 10, "MEMORY_MB": 0}}})
	var consumers int
	ok(t, s.db.Read(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT COUNT(*) FROM consumers").Scan(&consumers)
	}))
	equal(t, "consumers", consumers, 10)
}

func testRace(t *testing.T, s *Store) { race(t, s) }

// testDiff checks that each call changes exactly the listed rows.
func testDiff(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	step := func(what string, change func() error, want ...string) {
		t.Helper()
		before := dump(t, s)
		ok(t, change())
		if got := diff(before, dump(t, s)); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	p := func(generation int) string {
		return fmt.Sprintf("resource_providers c u id=1 uuid=%s name=p1 generation=%d root_provider_id=1", id(1),
			generation)
	}
	step("claim", func() error { return putOne(ctx, s, claim(500, 1, 2)) },
		"+ allocations c id=1 resource_provider_id=1 consumer_id="+string(id(500))+" resource_class_id=0 used=2",
		"+ consumer_types c id=1 name=INSTANCE",
		"+ consumers c u id=1 uuid="+string(id(500))+" project_id=1 user_id=1 generation=1 consumer_type_id=1",
		"+ projects c id=1 external_id=project", "- "+p(1), "+ "+p(2), "+ users c id=1 external_id=user")
	step("free", func() error { _, err := s.DeleteAllocations(ctx, consumer(500)); return err },
		"- allocations c id=1 resource_provider_id=1 consumer_id="+string(id(500))+" resource_class_id=0 used=2",
		"- consumers c u id=1 uuid="+string(id(500))+" project_id=1 user_id=1 generation=1 consumer_type_id=1")
	step("trait", func() error {
		_, _, err := s.ReplaceTraits(ctx, id(1), 2, []resource.Trait{resource.StandardTraits()[2]})
		return err
	}, "+ resource_provider_traits c trait_id=3 resource_provider_id=1", "- "+p(2), "+ "+p(3))
	inv := "inventories c%s id=%d resource_provider_id=1 resource_class_id=%d total=%d reserved=0 min_unit=1 " +
		"max_unit=%[4]d step_size=1 allocation_ratio=1"
	step("inventories", func() error {
		_, err := s.ReplaceInventories(ctx, id(1), 3,
			inventory{"VCPU": resource.Whole(3), "DISK_GB": resource.Whole(7)})
		return err
	}, "- "+fmt.Sprintf(inv, "", 1, 1, 100), "- "+fmt.Sprintf(inv, "", 2, 0, 10), "+ "+fmt.Sprintf(inv, "", 3, 2, 7),
		"+ "+fmt.Sprintf(inv, " u", 2, 0, 3), "- "+p(3), "+ "+p(4))
	two := id(2)
	step("child", func() error { _, _, err := s.CreateProvider(ctx, two, "p2", id(1)); return err },
		"+ resource_providers c id=2 uuid="+string(two)+" name=p2 generation=0 root_provider_id=1 parent_provider_id=1")
	step("move", func() error {
		_, _, err := s.UpdateProvider(ctx, two, Update{Name: "p2", Move: true, Free: true})
		return err
	}, "- resource_providers c id=2 uuid="+string(two)+" name=p2 generation=0 root_provider_id=1 parent_provider_id=1",
		"+ resource_providers c u id=2 uuid="+string(two)+" name=p2 generation=0 root_provider_id=2")
}
