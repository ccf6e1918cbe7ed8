package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// id returns the UUID for a number: below 100 for providers, from 500 for consumers, from 900 for aggregates.
func id(n int) provider.ID { return provider.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

func consumer(n int) resource.ConsumerID { return resource.ConsumerID(id(n)) }

func aggregate(n int) resource.AggregateID { return resource.AggregateID(id(n)) }

type inventory = map[resource.Class]resource.Inventory

// host creates provider n with 10 VCPU and 100 MEMORY_MB, at generation 1.
func host(t *testing.T, s *Store, n, parent int) {
	t.Helper()
	var under provider.ID
	if parent > 0 {
		under = id(parent)
	}
	_, _, err := s.CreateProvider(t.Context(), id(n), fmt.Sprint("p", n), under)
	ok(t, err)
	_, err = s.ReplaceInventories(t.Context(), id(n), 0,
		inventory{"VCPU": resource.Whole(10), "MEMORY_MB": resource.Whole(100)})
	ok(t, err)
}

func generation(t *testing.T, s *Store, n int) int {
	t.Helper()
	p, err := s.Provider(t.Context(), id(n))
	ok(t, err)
	return p.Generation
}

// claim returns a claim of VCPU on one provider for consumer n.
func claim(n, on, amount int) Claim {
	return Claim{Consumer: consumer(n), Allocation: resource.Allocation{id(on): {"VCPU": amount}}, Guarded: true,
		Project: "project", User: "user", ConsumerType: "INSTANCE"}
}

func (c Claim) seen(generation int) Claim {
	c.Generation = &generation
	return c
}

func putOne(ctx context.Context, s *Store, c Claim) error {
	_, err := s.PutAllocations(ctx, c)
	return err
}
