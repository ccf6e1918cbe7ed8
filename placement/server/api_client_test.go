package server

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The client of api/placement works with this server: all operations that the agent uses on a tree.
func TestClientTree(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.client(), t.Context()
	host, nic := createHost(t, c, "host", 8, 4)
	if err := c.EnsureTrait(ctx, "CUSTOM_RED"); err != nil {
		t.Fatal(err)
	}
	if err := c.EnsureTrait(ctx, "CUSTOM_RED"); err != nil {
		t.Errorf("the second call: %v", err)
	}
	generation, err := c.PutTraits(ctx, nic, 1, []resource.Trait{"HW_NIC_SRIOV", "CUSTOM_RED"})
	if err != nil || generation != 2 {
		t.Fatalf("%d %v", generation, err)
	}
	tree, err := c.Tree(ctx, nic)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Tree{Providers: []provider.Provider{
		{ID: host, Name: "host", Root: host, Generation: 1,
			Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)}},
		{ID: nic, Name: "host_nic", Parent: host, Root: host, Generation: 2,
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(4)},
			Traits:      []resource.Trait{"CUSTOM_RED", "HW_NIC_SRIOV"}},
	}}
	if !reflect.DeepEqual(tree, want) {
		t.Errorf("\n%+v\nwant\n%+v", tree, want)
	}
	if p, err := c.ProviderByName(ctx, "host_nic"); err != nil || p.ID != nic || p.Parent != host || p.Root != host {
		t.Errorf("%+v %v", p, err)
	}
	missing := provider.ID(uuid.NewString())
	for what, err := range map[string]error{
		"tree":   second(c.Tree(ctx, missing)),
		"name":   second(c.ProviderByName(ctx, "missing")),
		"delete": c.DeleteProvider(ctx, missing),
		"usages": second(c.Usages(ctx, missing)),
		"held":   second(c.ProviderAllocations(ctx, missing)),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of a missing provider: %v", what, err)
		}
	}
	if _, err := c.PutInventories(ctx, nic, 0, nil); !fault.Is(err, fault.Conflict) ||
		fault.CodeOf(err) != api.CodeConcurrentUpdate {
		t.Errorf("an old generation: %v", err)
	}
	if _, err := c.PutTraits(ctx, nic, 2, []resource.Trait{"CUSTOM_UNKNOWN"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown trait: %v", err)
	}
	if _, err := c.CreateProvider(ctx, missing, "host", ""); fault.CodeOf(err) != api.CodeDuplicateName {
		t.Errorf("a name that exists: %v", err)
	}
	if err := c.DeleteProvider(ctx, host); fault.CodeOf(err) != api.CodeProviderCannotDelete {
		t.Errorf("deletion of a parent: %v", err)
	}
	if generation, err := c.PutInventories(ctx, nic, 2, nil); err != nil || generation != 3 {
		t.Errorf("removal of all inventories: %d %v", generation, err)
	}
	if err := c.DeleteProvider(ctx, nic); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// The client finds candidates, claims one and deletes the claim.
func TestClientClaim(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.client(), t.Context()
	host, nic := createHost(t, c, "host", 8, 4)
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 2}},
		{Suffix: "_pci-0", Resources: resource.Amounts{"CUSTOM_VF": 1}}}, Limit: 10}
	found, err := c.Candidates(ctx, ask)
	if err != nil || len(found.List) != 1 || found.Reason != "" {
		t.Fatalf("%+v %v", found, err)
	}
	want := api.Candidate{Allocation: resource.Allocation{host: {"VCPU": 2}, nic: {"CUSTOM_VF": 1}},
		Mappings: map[string][]provider.ID{"": {host}, "_pci-0": {nic}}}
	if !reflect.DeepEqual(found.List[0], want) {
		t.Errorf("%+v, want %+v", found.List[0], want)
	}
	summary := api.Summary{Root: host, Parent: host,
		Resources: map[resource.Class]api.Capacity{"CUSTOM_VF": {Capacity: 4}}, Traits: []resource.Trait{}}
	if !reflect.DeepEqual(found.Summaries[nic], summary) {
		t.Errorf("%+v, want %+v", found.Summaries[nic], summary)
	}
	id := resource.ConsumerID(uuid.NewString())
	held, err := c.Allocation(ctx, id)
	if err != nil || held.Generation != nil || len(held.Allocation) != 0 {
		t.Fatalf("%+v %v", held, err)
	}
	held = api.ConsumerAllocation{Allocation: found.List[0].Allocation, Mappings: found.List[0].Mappings, Project: "p",
		User:         "u",
		ConsumerType: "INSTANCE"}
	if err := c.PutAllocation(ctx, id, held); err != nil {
		t.Fatal(err)
	}
	if err := c.PutAllocation(ctx, id, held); fault.CodeOf(err) != api.CodeConcurrentUpdate {
		t.Errorf("the same claim without a generation again: %v", err)
	}
	got, err := c.Allocation(ctx, id)
	if err != nil || got.Generation == nil || *got.Generation != 1 || !got.Allocation.Equal(held.Allocation) ||
		got.Project != "p" || got.ConsumerType != "INSTANCE" {
		t.Fatalf("%+v %v", got, err)
	}
	holders, err := c.ProviderAllocations(ctx, nic)
	if err != nil || !reflect.DeepEqual(holders, map[resource.ConsumerID]resource.Amounts{id: {"CUSTOM_VF": 1}}) {
		t.Errorf("%v %v", holders, err)
	}
	testClientTreeState(ctx, t, w, host, held)
	testClientReshape(ctx, t, c, host, nic, id, got)
	if err := c.DeleteAllocation(ctx, id); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAllocation(ctx, id); err != nil {
		t.Errorf("the second call: %v", err)
	}
	compareIndex(t, w)
}

// testClientTreeState writes allocations that name the state of the tree of host, before and after a removal.
func testClientTreeState(ctx context.Context, t *testing.T, w *world, host provider.ID, claim api.ConsumerAllocation) {
	t.Helper()
	c := w.client()
	if err := w.server.syncer.Poll(ctx); err != nil { // reads how often other processes have written
		t.Fatal(err)
	}
	root, err := c.TreeAllocations(ctx, host, false)
	if err != nil || root.State == "" || root.Whole || len(root.By[host]) != 1 || len(root.By) != 1 {
		t.Fatalf("%+v %v", root, err)
	}
	whole, err := c.TreeAllocations(ctx, host, true)
	if err != nil || whole.State != root.State || !whole.Whole || len(whole.By) != 2 ||
		!reflect.DeepEqual(whole.By[host], root.By[host]) {
		t.Fatalf("%+v %v", whole, err)
	}
	if state, err := c.TreeState(ctx, host); err != nil || state != root.State {
		t.Errorf("the state alone: %q %v, want %q", state, err, root.State)
	}
	if _, err := c.TreeState(ctx, provider.ID(uuid.NewString())); !fault.Is(err, fault.NotFound) {
		t.Errorf("the state of a provider that does not exist: %v", err)
	}
	claim.Tree, claim.TreeState, claim.Generation = host, root.State, nil
	first, second := resource.ConsumerID(uuid.NewString()), resource.ConsumerID(uuid.NewString())
	if err := c.PutAllocation(ctx, first, claim); err != nil {
		t.Error(err)
	}
	if state, err := c.TreeState(ctx, host); err != nil || state == root.State {
		t.Errorf("after a claim the state is %q as before, %v", state, err)
	}
	if err := c.DeleteAllocation(ctx, first); err != nil {
		t.Error(err)
	}
	if err := c.PutAllocation(ctx, second, claim); fault.CodeOf(err) != api.CodeTreeChanged {
		t.Errorf("after a removal: %v", err)
	}
	if root, err = c.TreeAllocations(ctx, host, false); err != nil {
		t.Error(err)
	}
	claim.TreeState = root.State
	if err := c.PutAllocation(ctx, second, claim); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAllocation(ctx, second); err != nil {
		t.Error(err)
	}
	for _, invalid := range []string{"x", "=", "=x", string(host) + "="} {
		bad := api.NewClient(c.REST.Base, c.REST.HTTP, "admin")
		bad.REST.Headers[api.IfTreeStateHeader] = invalid
		if err := bad.PutAllocation(ctx, second, api.ConsumerAllocation{Allocation: claim.Allocation, Project: "p",
			User: "u", ConsumerType: "INSTANCE"}); fault.CodeOf(err) != api.CodeTreeChanged {
			t.Errorf("the state %q: %v", invalid, err)
		}
	}
}

// testClientReshape moves VCPU with its allocations from the host to the NIC's provider.
func testClientReshape(ctx context.Context, t *testing.T, c *api.Client, host, nic provider.ID,
	id resource.ConsumerID, held api.ConsumerAllocation) {
	t.Helper()
	list, err := c.Providers(ctx, map[string][]string{"in_tree": {string(host)}})
	if err != nil {
		t.Fatal(err)
	}
	generation := func(id provider.ID) int {
		return list[slices.IndexFunc(list, func(p provider.Provider) bool { return p.ID == id })].Generation
	}
	held.Allocation = resource.Allocation{nic: {"VCPU": 2, "CUSTOM_VF": 1}}
	move := api.Reshape{
		Inventories: map[provider.ID]api.InventorySet{
			host: {Generation: generation(host)},
			nic: {Generation: generation(nic), Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8),
				"CUSTOM_VF": resource.Whole(4)}},
		},
		Allocations: map[resource.ConsumerID]api.ConsumerAllocation{id: held},
	}
	if err := c.Reshape(ctx, move); err != nil {
		t.Fatal(err)
	}
	if err := c.Reshape(ctx, move); fault.CodeOf(err) != api.CodeConcurrentUpdate {
		t.Errorf("the same reshape again: %v", err)
	}
	used, err := c.Usages(ctx, nic)
	if err != nil || !reflect.DeepEqual(used, resource.Amounts{"VCPU": 2, "CUSTOM_VF": 1}) {
		t.Errorf("%v %v", used, err)
	}
}
