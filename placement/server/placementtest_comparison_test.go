package server

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// service is what the Placement in memory and the client of this server have in common.
type service interface {
	ProviderByName(ctx context.Context, name string) (provider.Provider, error)
	Tree(ctx context.Context, id provider.ID) (provider.Tree, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	EnsureClass(ctx context.Context, class resource.Class) error
	EnsureTrait(ctx context.Context, trait resource.Trait) error
	CreateProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (provider.Provider, error)
	PutProvider(ctx context.Context, id provider.ID, name string, parent provider.ID) (provider.Provider, error)
	DeleteProvider(ctx context.Context, id provider.ID) error
	PutInventories(ctx context.Context, id provider.ID, generation int,
		inv map[resource.Class]resource.Inventory) (int, error)
	PutTraits(ctx context.Context, id provider.ID, generation int, traits []resource.Trait) (int, error)
	Reshape(ctx context.Context, r api.Reshape) error
	Candidates(ctx context.Context, ask resource.Ask) (api.Candidates, error)
	Allocation(ctx context.Context, consumer resource.ConsumerID) (api.ConsumerAllocation, error)
	PutAllocation(ctx context.Context, consumer resource.ConsumerID, held api.ConsumerAllocation) error
	PutAllocations(ctx context.Context, all map[resource.ConsumerID]api.ConsumerAllocation) error
	DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error
	Inventories(ctx context.Context, id provider.ID) (api.InventorySet, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
}

var (
	_ service = (*api.Client)(nil)
	_ service = (*placementtest.Placement)(nil)
)

// comparison runs calls against both services.
type comparison struct {
	t          *testing.T
	real, fake service
	kinds      map[string]int // how often each kind and code of error came
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	return &comparison{t: t, real: newWorld(t).client(), fake: placementtest.New(nil), kinds: map[string]int{}}
}

// sameAnswer makes a call of both services and compares the answers, and the kind and the code of the errors.
func sameAnswer[T any](c *comparison, what string, call func(service) (T, error)) (T, error) {
	c.t.Helper()
	want, wantErr := call(c.real)
	got, gotErr := call(c.fake)
	outcome := func(err error) string { return strings.TrimSpace(string(fault.KindOf(err)) + " " + fault.CodeOf(err)) }
	c.kinds[outcome(wantErr)]++
	if outcome(gotErr) != outcome(wantErr) {
		c.t.Fatalf("%s: the Placement in memory returns %q (%v), the real one %q (%v)", what, outcome(gotErr), gotErr,
			outcome(wantErr), wantErr)
	}
	if wantErr == nil && !reflect.DeepEqual(got, want) {
		c.t.Fatalf("%s: the Placement in memory returns\n%+v\nthe real one\n%+v", what, got, want)
	}
	return want, wantErr
}

// do is sameAnswer for a call without an answer.
func (c *comparison) do(what string, call func(service) error) {
	c.t.Helper()
	_, _ = sameAnswer(c, what, func(s service) (struct{}, error) { return struct{}{}, call(s) })
}

// The names that random calls use.
func uuidOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

var comparedClasses = []resource.Class{"VCPU", "CUSTOM_VF", "CUSTOM_GPU", "CUSTOM_UNKNOWN"}

// randomCalls draws the arguments of random calls.
type randomCalls struct {
	*comparison
	*rand.Rand
}

func (r randomCalls) provider() provider.ID { return provider.ID(uuidOf(r.IntN(7))) }
func (r randomCalls) consumer() resource.ConsumerID {
	return resource.ConsumerID(uuidOf(100 + r.IntN(5)))
}

// class is seldom one that does not exist.
func (r randomCalls) class() resource.Class {
	if r.IntN(25) == 0 {
		return comparedClasses[3]
	}
	return comparedClasses[r.IntN(3)]
}

// generation is mostly that of the provider.
func (r randomCalls) generation(id provider.ID) int {
	tree, _ := r.real.Tree(r.t.Context(), id)
	p, _ := tree.ByID(id)
	if r.IntN(10) == 0 {
		return p.Generation + 1
	}
	return p.Generation
}

func (r randomCalls) inventories() map[resource.Class]resource.Inventory {
	out := map[resource.Class]resource.Inventory{}
	for range r.IntN(4) {
		inv := resource.Whole(1 + r.IntN(8))
		if inv.Reserved = r.IntN(3); r.IntN(4) == 0 {
			inv.AllocationRatio = 1.5
		}
		if r.IntN(6) == 0 {
			inv.StepSize = 2
		}
		out[r.class()] = inv
	}
	return out
}

// held is a random allocation for a consumer, mostly of its generation.
func (r randomCalls) held(id resource.ConsumerID) api.ConsumerAllocation {
	now, _ := r.real.Allocation(r.t.Context(), id)
	out := api.ConsumerAllocation{Allocation: resource.Allocation{}, Generation: now.Generation, Project: "p", User: "u",
		ConsumerType: []string{"INSTANCE", "MIGRATION", "unknown"}[r.IntN(3)]}
	for range r.IntN(4) {
		out.Allocation[r.provider()] = resource.Amounts{r.class(): 1 + r.IntN(3)}
	}
	if r.IntN(12) == 0 {
		wrong := 7
		out.Generation = &wrong
	}
	if r.IntN(25) == 0 {
		out.Project = ""
	}
	if r.IntN(25) == 0 {
		out.ConsumerType = ""
	}
	return out
}

func (r randomCalls) several() map[resource.ConsumerID]api.ConsumerAllocation {
	all := map[resource.ConsumerID]api.ConsumerAllocation{}
	for range 1 + r.IntN(2) {
		id := r.consumer()
		all[id] = r.held(id)
	}
	return all
}

// one makes one random call.
func (r randomCalls) one(n int) {
	ctx, id, consumer := r.t.Context(), r.provider(), r.consumer()
	what := func(op string, of any) string { return fmt.Sprintf("call %d: %s %v", n, op, of) }
	switch r.IntN(12) {
	case 0:
		parent := provider.ID("")
		if r.IntN(3) > 0 {
			parent = r.provider()
		}
		_, _ = sameAnswer(r.comparison, what("CreateProvider", id), func(s service) (provider.Provider, error) {
			return s.CreateProvider(ctx, id, "host"+string(id), parent)
		})
	case 1:
		if r.IntN(4) == 0 {
			r.do(what("DeleteProvider", id), func(s service) error { return s.DeleteProvider(ctx, id) })
		}
	case 2, 3:
		generation, all := r.generation(id), r.inventories()
		_, _ = sameAnswer(r.comparison, what("PutInventories", id), func(s service) (int, error) {
			return s.PutInventories(ctx, id, generation, all)
		})
	case 4:
		generation, trait := r.generation(id), []resource.Trait{"CUSTOM_RED", "HW_NIC_SRIOV", "CUSTOM_UNKNOWN"}[r.IntN(3)]
		_, _ = sameAnswer(r.comparison, what("PutTraits", id), func(s service) (int, error) {
			return s.PutTraits(ctx, id, generation, []resource.Trait{trait})
		})
	case 5, 6:
		held := r.held(consumer)
		r.do(what("PutAllocation", held), func(s service) error { return s.PutAllocation(ctx, consumer, held) })
	case 7:
		all := r.several()
		r.do(what("PutAllocations", all), func(s service) error { return s.PutAllocations(ctx, all) })
	case 8:
		r.do(what("DeleteAllocation", consumer), func(s service) error { return s.DeleteAllocation(ctx, consumer) })
	case 9:
		if r.IntN(6) > 0 { // many moves make a few deep trees, in which hardly a provider can be deleted
			return
		}
		parent, name := r.provider(), "host"+string([]provider.ID{id, id, r.provider()}[r.IntN(3)])
		_, _ = sameAnswer(r.comparison, what("PutProvider", id), func(s service) (provider.Provider, error) {
			return s.PutProvider(ctx, id, name, parent)
		})
	case 10, 11:
		reshape := api.Reshape{Inventories: map[provider.ID]api.InventorySet{}, Allocations: r.several()}
		for range 1 + r.IntN(2) {
			id := r.provider()
			reshape.Inventories[id] = api.InventorySet{Generation: r.generation(id), Inventories: r.inventories()}
		}
		r.do(what("Reshape", reshape), func(s service) error { return s.Reshape(ctx, reshape) })
	}
}

// compareAll compares all that can be read.
func (c *comparison) compareAll(n int) {
	ctx := c.t.Context()
	for i := range 7 {
		id := provider.ID(uuidOf(i))
		what := fmt.Sprintf("after call %d: provider %d", n, i)
		_, _ = sameAnswer(c, what+", tree", func(s service) (provider.Tree, error) { return s.Tree(ctx, id) })
		_, _ = sameAnswer(c, what+", by name", func(s service) (provider.Provider, error) {
			return s.ProviderByName(ctx, "host"+string(id))
		})
		_, _ = sameAnswer(c, what+", inventories", func(s service) (api.InventorySet, error) {
			return s.Inventories(ctx,
				id)
		})
		_, _ = sameAnswer(c, what+", usages", func(s service) (resource.Amounts, error) { return s.Usages(ctx, id) })
		_, _ = sameAnswer(c, what+", allocations", func(s service) (map[resource.ConsumerID]resource.Amounts, error) {
			return s.ProviderAllocations(ctx, id)
		})
	}
	for i := range 5 {
		id := resource.ConsumerID(uuidOf(100 + i))
		_, _ = sameAnswer(c, fmt.Sprintf("after call %d: consumer %d", n, i),
			func(s service) (api.ConsumerAllocation, error) {
				return s.Allocation(ctx, id)
			})
	}
	for _, ask := range []resource.Ask{
		{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}},
		{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 2}, InTree: provider.ID(uuidOf(1))},
			{Suffix: "_a", Resources: resource.Amounts{"CUSTOM_VF": 1}, Required: [][]resource.Trait{{"CUSTOM_RED"}}},
			{Suffix: "_b", Resources: resource.Amounts{"CUSTOM_GPU": 1}}}, GroupPolicy: "none"},
		{Groups: []resource.Group{{Suffix: "_a", Resources: resource.Amounts{"CUSTOM_VF": 1}},
			{Suffix: "_b", Resources: resource.Amounts{"CUSTOM_GPU": 1}}}},
		{Groups: []resource.Group{{Resources: resource.Amounts{"CUSTOM_UNKNOWN": 1}}}},
	} {
		_, _ = sameAnswer(c, fmt.Sprintf("after call %d: candidates for %v", n, ask),
			func(s service) (api.Candidates, error) {
				found, err := s.Candidates(ctx, ask)
				found.Reason = ""
				slices.SortFunc(found.List, func(a, b api.Candidate) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				return found, err
			})
	}
}

// The Placement in memory answers random calls as this server does: the same values, kinds and codes of errors.
func TestPlacementInMemoryAnswersAsTheServer(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(6) {
		r := randomCalls{newComparison(t), rand.New(rand.NewPCG(seed, 0))}
		for _, class := range comparedClasses[1:3] {
			r.do("EnsureClass", func(s service) error { return s.EnsureClass(t.Context(), class) })
		}
		r.do("EnsureTrait", func(s service) error { return s.EnsureTrait(t.Context(), "CUSTOM_RED") })
		for n := range 300 {
			if r.one(n); n%10 == 9 {
				r.compareAll(n)
			}
		}
		for kind, n := range r.kinds {
			kinds[kind] += n
		}
	}
	t.Log(kinds)
	conflict := string(fault.Conflict) + " "
	for _, kind := range []string{"", string(fault.NotFound) + " " + api.CodeUndefined, conflict + api.CodeUndefined,
		conflict + api.CodeConcurrentUpdate, conflict + api.CodeDuplicateName, conflict + api.CodeProviderInUse,
		conflict + api.CodeProviderCannotDelete, conflict + api.CodeInventoryInUse,
		string(fault.Invalid) + " " + api.CodeUndefined, string(fault.Invalid) + " " + api.CodeProviderNotFound} {
		if kinds[strings.TrimSpace(kind)] == 0 {
			t.Errorf("no call returned %q; there were %v", kind, slices.Sorted(maps.Keys(kinds)))
		}
	}
}
