package clienttest

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceclasses"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/traits"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/usages"
)

// The providers, consumers and the aggregate of the walk. They end in 9, which the walk of the `openstack` client does
// not use.
const (
	host      = "11111111-1111-4111-8111-111111111119"
	nic       = "22222222-2222-4222-8222-222222222229"
	server    = "33333333-3333-4333-8333-333333333339"
	migration = "44444444-4444-4444-8444-444444444449"
	rack      = "55555555-5555-4555-8555-555555555559"
	nobody    = "66666666-6666-4666-8666-666666666669"
)

// gopher is one thing that a program asks gophercloud for, and the status that Placement is to refuse it with, or 0.
type gopher struct {
	name   string
	refuse int
	do     func(c *gophercloud.ServiceClient) (any, error)
}

// gophercloudClient walks through all that gophercloud knows of Placement, in Berth and in the original, and holds what
// the library made of the answers against each other.
func gophercloudClient(t *testing.T, c *Cloud) {
	berth, original := gophers(t, c, Berth), gophers(t, c, Original)
	for _, step := range walk(t) {
		var said [2]string
		for i, client := range []*gophercloud.ServiceClient{berth, original} {
			got, err := step.do(client)
			if refused, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok && refused.Actual == step.refuse {
				got = refused.Actual
			} else if err != nil || step.refuse != 0 {
				t.Fatalf("%s, region %d: %v; should be refused with %d", step.name, i+1, err, step.refuse)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			said[i] = canonical(string(text))
		}
		if said[0] != said[1] {
			t.Errorf("%s\nBerth:\n%s\nthe original:\n%s", step.name, said[0], said[1])
		}
	}
}

// gophers signs in and finds Placement in the catalog.
func gophers(t *testing.T, c *Cloud, region string) *gophercloud.ServiceClient {
	t.Helper()
	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{IdentityEndpoint: c.URL + "/v3",
		Username: c.AdminUser, Password: c.AdminPassword, TenantName: c.AdminProject, DomainID: "default"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{Region: region})
	if err != nil {
		t.Fatal(err)
	}
	client.Microversion = "1.39"
	return client
}

// walk is what the library can do, in an order in which each step finds what it needs.
func walk(t *testing.T) []gopher {
	var steps []gopher
	for _, part := range [][]gopher{names(t), providers(t), stock(t), marks(t), candidatesOf(t), claims(t), farewell(t)} {
		steps = append(steps, part...)
	}
	return steps
}

func names(t *testing.T) []gopher {
	ctx := t.Context()
	return []gopher{
		{"create a class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Create(ctx, c, resourceclasses.CreateOpts{Name: "CUSTOM_TIN"}).ExtractErr()
		}},
		{"create it again", 409, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Create(ctx, c, resourceclasses.CreateOpts{Name: "CUSTOM_TIN"}).ExtractErr()
		}},
		{"ensure it", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Update(ctx, c, "CUSTOM_TIN").ExtractErr()
		}},
		{"get it", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceclasses.Get(ctx, c, "CUSTOM_TIN").Extract()
		}},
		{"get none", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceclasses.Get(ctx, c, "CUSTOM_NONE").Extract()
		}},
		{"list classes", 0, func(c *gophercloud.ServiceClient) (any, error) {
			page, err := resourceclasses.List(c).AllPages(ctx)
			if err != nil {
				return nil, err
			}
			all, err := resourceclasses.ExtractResourceClasses(page)
			return len(all) > 15, err // the standard ones differ with the age of their lists
		}},
		{"create a trait", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Create(ctx, c, "CUSTOM_SHINY").ExtractErr()
		}},
		{"has it", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Get(ctx, c, "CUSTOM_SHINY").ExtractErr()
		}},
		{"has none", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Get(ctx, c, "CUSTOM_NONE").ExtractErr()
		}},
		{"list traits", 0, func(c *gophercloud.ServiceClient) (any, error) {
			page, err := traits.List(c, traits.ListOpts{Name: "in:CUSTOM_SHINY,HW_CPU_X86_AVX"}).AllPages(ctx)
			if err != nil {
				return nil, err
			}
			return traits.ExtractTraits(page)
		}},
	}
}

func providers(t *testing.T) []gopher {
	ctx := t.Context()
	name, parent := "nic-nine", host
	return []gopher{
		{"create a host", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "host-9", UUID: host}).Extract()
		}},
		{"its name is taken", 409, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "host-9"}).Extract()
		}},
		{"create a NIC", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "nic-9", UUID: nic}).Extract()
		}},
		{"rename it and put it into the host", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Update(ctx, c, nic, resourceproviders.UpdateOpts{Name: &name,
				ParentProviderUUID: &parent}).Extract()
		}},
		{"no such parent", 400, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "lost",
				ParentProviderUUID: nobody}).Extract()
		}},
		{"get the NIC", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Get(ctx, c,
				nic).Extract()
		}},
		{"get nobody", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Get(ctx, c, nobody).Extract()
		}},
		{"list the tree", 0, func(c *gophercloud.ServiceClient) (any, error) { return tree(t, c, "") }},
		{"list those with VCPU", 0, func(c *gophercloud.ServiceClient) (any, error) { return tree(t, c, "VCPU:1") }},
	}
}

// tree lists the host's tree.
func tree(t *testing.T, c *gophercloud.ServiceClient, resources string) (any, error) {
	page, err := resourceproviders.List(c, resourceproviders.ListOpts{InTree: host, Resources: resources}).AllPages(
		t.Context())
	if err != nil {
		return nil, err
	}
	return resourceproviders.ExtractResourceProviders(page)
}

func stock(t *testing.T) []gopher {
	ctx := t.Context()
	one := resourceproviders.Inventory{AllocationRatio: 2, MaxUnit: 8, MinUnit: 1, Reserved: 1, StepSize: 1, Total: 16}
	set := func(id string, generation int, classes ...string) func(c *gophercloud.ServiceClient) (any, error) {
		inventories := map[string]resourceproviders.Inventory{}
		for _, class := range classes {
			inventories[class] = one
		}
		return func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.UpdateInventories(ctx, c, id, resourceproviders.UpdateInventoriesOpts{
				ResourceProviderGeneration: generation, Inventories: inventories}).Extract()
		}
	}
	return []gopher{
		{"stock the host", 0, set(host, 0, "VCPU", "MEMORY_MB", "DISK_GB")},
		{"with an old generation", 409, set(host, 0, "VCPU")},
		{"with a class that nobody made", 400, set(host, 1, "CUSTOM_NONE")},
		{"stock the NIC", 0, set(nic, 0, "SRIOV_NET_VF", "CUSTOM_TIN")},
		{"change one class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			more := one
			more.Total = 32
			return resourceproviders.UpdateInventory(ctx, c, host, "VCPU",
				resourceproviders.UpdateInventoryOpts{ResourceProviderGeneration: 1, Inventory: more}).Extract()
		}},
		{"one class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetInventory(ctx, c, host, "VCPU").Extract()
		}},
		{"a class it has not", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetInventory(ctx, c, host, "VGPU").Extract()
		}},
		{"all classes", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetInventories(ctx, c, host).Extract()
		}},
		{"take one class away", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventory(ctx, c, host, "DISK_GB").ExtractErr()
		}},
		{"take it away again", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventory(ctx, c, host, "DISK_GB").ExtractErr()
		}},
	}
}

func marks(t *testing.T) []gopher {
	ctx := t.Context()
	generation := 3
	return []gopher{
		{"set aggregates", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.UpdateAggregates(ctx, c, host,
				resourceproviders.UpdateAggregatesOpts{ResourceProviderGeneration: &generation,
					Aggregates: []string{rack}}).Extract()
		}},
		{"get aggregates", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetAggregates(ctx, c, host).Extract()
		}},
		{"set traits", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.UpdateTraits(ctx, c, nic,
				resourceproviders.UpdateTraitsOpts{ResourceProviderGeneration: 1, Traits: []string{"CUSTOM_SHINY",
					"HW_NIC_SRIOV"}}).Extract()
		}},
		{"get traits", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetTraits(ctx, c, nic).Extract()
		}},
		{"the trait is in use", 409, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Delete(ctx, c, "CUSTOM_SHINY").ExtractErr()
		}},
		{"list providers by traits and aggregates", 0, func(c *gophercloud.ServiceClient) (any, error) {
			page, err := resourceproviders.List(c, resourceproviders.ListOpts139{InTree: host,
				Required: []string{"in:CUSTOM_SHINY,HW_CPU_X86_AVX", "!HW_CPU_X86_SSE"}}).AllPages(ctx)
			if err != nil {
				return nil, err
			}
			return resourceproviders.ExtractResourceProviders(page)
		}},
	}
}

func candidatesOf(t *testing.T) []gopher {
	ask := func(opts allocationcandidates.ListOpts) func(c *gophercloud.ServiceClient) (any, error) {
		return func(c *gophercloud.ServiceClient) (any, error) {
			page, err := allocationcandidates.List(c, opts).AllPages(t.Context())
			if err != nil {
				return nil, err
			}
			return allocationcandidates.ExtractAllocationCandidates(page)
		}
	}
	return []gopher{
		{"candidates", 0, ask(allocationcandidates.ListOpts{Resources: "VCPU:2,MEMORY_MB:4", MemberOf: []string{rack},
			InTree: host})},
		{"candidates of groups", 0, ask(allocationcandidates.ListOpts{Resources: "VCPU:2", InTree: host, GroupPolicy: "none",
			Limit: 100, SameSubtree: []string{"_A,_B"},
			ResourceGroups: map[string]allocationcandidates.ResourceGroup{
				"_A": {Resources: "SRIOV_NET_VF:1", Required: []string{"HW_NIC_SRIOV"}}, "_B": {Resources: "CUSTOM_TIN:1",
					InTree: host}}})},
		{"no candidates", 0, ask(allocationcandidates.ListOpts{Resources: "VCPU:9"})},
		{"a trait that nobody made", 400, ask(allocationcandidates.ListOpts{Resources: "VCPU:1",
			Required: []string{"CUSTOM_NONE"}})},
	}
}

func claims(t *testing.T) []gopher {
	ctx := t.Context()
	claim := func(generation *int, amounts map[string]map[string]int) allocations.UpdateOpts {
		opts := allocations.UpdateOpts{ProjectID: "nine", UserID: "user", ConsumerType: "INSTANCE",
			ConsumerGeneration: generation,
			Allocations:        map[string]allocations.ProviderAllocationsOpts{}}
		for id, resources := range amounts {
			opts.Allocations[id] = allocations.ProviderAllocationsOpts{Resources: resources}
		}
		return opts
	}
	some := map[string]map[string]int{host: {"VCPU": 2, "MEMORY_MB": 4}, nic: {"SRIOV_NET_VF": 1}}
	first := 1
	update := func(opts allocations.UpdateOpts) func(c *gophercloud.ServiceClient) (any, error) {
		return func(c *gophercloud.ServiceClient) (any, error) {
			return nil, allocations.Update(ctx, c, server, opts).ExtractErr()
		}
	}
	return []gopher{
		{"claim", 0, update(claim(nil, some))},
		{"claim with an old generation", 409, update(claim(nil, some))},
		{"claim too much", 409, update(claim(&first, map[string]map[string]int{host: {"VCPU": 9}}))},
		{"the claim", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return allocations.Get(ctx, c,
				server).Extract()
		}},
		{"move it to a migration", 0, func(c *gophercloud.ServiceClient) (any, error) {
			moved := claim(nil, some)
			moved.ConsumerType = "MIGRATION"
			return nil, allocations.Manage(ctx, c, allocations.ManageOpts{server: claim(&first, nil),
				migration: moved}).ExtractErr()
		}},
		{"nobody's claim", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return allocations.Get(ctx, c,
				server).Extract()
		}},
		{"the migration's claim", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return allocations.Get(ctx, c,
				migration).Extract()
		}},
		{"the host's allocations", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetAllocations(ctx, c, host).Extract()
		}},
		{"the host's usages", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetUsages(ctx, c, host).Extract()
		}},
		{"the project's usages", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return usages.Get(ctx, c, usages.GetOpts{ProjectID: "nine"}).Extract()
		}},
		{"by type of consumer", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return usages.Get(ctx, c, usages.GetOpts{ProjectID: "nine", UserID: "user", ConsumerType: "all"}).Extract()
		}},
		{"the host is in use", 409, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventories(ctx, c, host).ExtractErr()
		}},
	}
}

func farewell(t *testing.T) []gopher {
	ctx := t.Context()
	remove := func(id string) func(c *gophercloud.ServiceClient) (any, error) {
		return func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.Delete(ctx, c, id).ExtractErr()
		}
	}
	return []gopher{
		{"release", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, allocations.Delete(ctx, c, migration).ExtractErr()
		}},
		{"release again", http.StatusNotFound, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, allocations.Delete(ctx, c, migration).ExtractErr()
		}},
		{"no inventories", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventories(ctx, c, nic).ExtractErr()
		}},
		{"no traits", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteTraits(ctx, c, nic).ExtractErr()
		}},
		{"the host has a child", 409, remove(host)},
		{"no NIC", 0, remove(nic)},
		{"no host", 0, remove(host)},
		{"no host again", 404, remove(host)},
		{"no trait", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Delete(ctx, c, "CUSTOM_SHINY").ExtractErr()
		}},
		{"no class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Delete(ctx, c, "CUSTOM_TIN").ExtractErr()
		}},
	}
}
