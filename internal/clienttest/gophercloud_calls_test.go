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

// The providers, consumers and the aggregate of this test. They end in 9, which the test of the `openstack` client
// does not use.
const (
	host      = "11111111-1111-4111-8111-111111111119"
	nic       = "22222222-2222-4222-8222-222222222229"
	server    = "33333333-3333-4333-8333-333333333339"
	migration = "44444444-4444-4444-8444-444444444449"
	rack      = "55555555-5555-4555-8555-555555555559"
	missing   = "66666666-6666-4666-8666-666666666669"
)

// step is one call of gophercloud, and the status with which Placement must reject it, or 0.
type step struct {
	name   string
	status int
	do     func(c *gophercloud.ServiceClient) (any, error)
}

// compareGophercloud executes all calls of gophercloud for Placement with Berth and with OpenStack's Placement, and
// compares the results.
func compareGophercloud(t *testing.T, c *Cloud) {
	berth, original := gophercloudClient(t, c, Berth), gophercloudClient(t, c, Original)
	for _, step := range allSteps(t) {
		var results [2]string
		for i, client := range []*gophercloud.ServiceClient{berth, original} {
			got, err := step.do(client)
			if rejected, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok && rejected.Actual == step.status {
				got = rejected.Actual
			} else if err != nil || step.status != 0 {
				t.Fatalf("%s, region %d: %v; want status %d", step.name, i+1, err, step.status)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			results[i] = canonical(string(text))
		}
		if results[0] != results[1] {
			t.Errorf("%s\nBerth:\n%s\nOpenStack:\n%s", step.name, results[0], results[1])
		}
	}
}

// gophercloudClient authenticates and finds Placement in the catalog.
func gophercloudClient(t *testing.T, c *Cloud, region string) *gophercloud.ServiceClient {
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

// allSteps returns all calls of the library, in an order in which each call finds what it needs.
func allSteps(t *testing.T) []step {
	var steps []step
	for _, group := range [][]step{nameSteps(t), providerSteps(t), inventorySteps(t), traitSteps(t), candidateSteps(t),
		allocationSteps(t), deleteSteps(t)} {
		steps = append(steps, group...)
	}
	return steps
}

// nameSteps returns the calls for resource classes and traits.
func nameSteps(t *testing.T) []step {
	ctx := t.Context()
	return []step{
		{"create a class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Create(ctx, c, resourceclasses.CreateOpts{Name: "CUSTOM_TIN"}).ExtractErr()
		}},
		{"create an existing class", 409, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Create(ctx, c, resourceclasses.CreateOpts{Name: "CUSTOM_TIN"}).ExtractErr()
		}},
		{"ensure a class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Update(ctx, c, "CUSTOM_TIN").ExtractErr()
		}},
		{"get a class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceclasses.Get(ctx, c, "CUSTOM_TIN").Extract()
		}},
		{"get an unknown class", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceclasses.Get(ctx, c, "CUSTOM_NONE").Extract()
		}},
		{"list classes", 0, func(c *gophercloud.ServiceClient) (any, error) {
			page, err := resourceclasses.List(c).AllPages(ctx)
			if err != nil {
				return nil, err
			}
			all, err := resourceclasses.ExtractResourceClasses(page)
			return len(all) > 15, err // the standard classes depend on the version of their list
		}},
		{"create a trait", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Create(ctx, c, "CUSTOM_SHINY").ExtractErr()
		}},
		{"check a trait", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Get(ctx, c, "CUSTOM_SHINY").ExtractErr()
		}},
		{"check an unknown trait", 404, func(c *gophercloud.ServiceClient) (any, error) {
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

// providerSteps returns the calls for providers.
func providerSteps(t *testing.T) []step {
	ctx := t.Context()
	name, parent := "nic-nine", host
	return []step{
		{"create a host", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "host-9", UUID: host}).Extract()
		}},
		{"create a host with the same name", 409, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "host-9"}).Extract()
		}},
		{"create a NIC", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "nic-9", UUID: nic}).Extract()
		}},
		{"rename the NIC and move it below the host", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Update(ctx, c, nic, resourceproviders.UpdateOpts{Name: &name,
				ParentProviderUUID: &parent}).Extract()
		}},
		{"create a provider with an unknown parent", 400, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: "lost",
				ParentProviderUUID: missing}).Extract()
		}},
		{"get the NIC", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Get(ctx, c,
				nic).Extract()
		}},
		{"get an unknown provider", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.Get(ctx, c, missing).Extract()
		}},
		{"list the tree", 0, func(c *gophercloud.ServiceClient) (any, error) { return tree(t, c, "") }},
		{"list those with VCPU", 0, func(c *gophercloud.ServiceClient) (any, error) { return tree(t, c, "VCPU:1") }},
	}
}

// tree returns the providers of the host's tree.
func tree(t *testing.T, c *gophercloud.ServiceClient, resources string) (any, error) {
	page, err := resourceproviders.List(c, resourceproviders.ListOpts{InTree: host, Resources: resources}).AllPages(
		t.Context())
	if err != nil {
		return nil, err
	}
	return resourceproviders.ExtractResourceProviders(page)
}

// inventorySteps returns the calls for inventories.
func inventorySteps(t *testing.T) []step {
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
	return []step{
		{"set inventories of the host", 0, set(host, 0, "VCPU", "MEMORY_MB", "DISK_GB")},
		{"set inventories with an old generation", 409, set(host, 0, "VCPU")},
		{"set inventories with an unknown class", 400, set(host, 1, "CUSTOM_NONE")},
		{"set inventories of the NIC", 0, set(nic, 0, "SRIOV_NET_VF", "CUSTOM_TIN")},
		{"change one class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			more := one
			more.Total = 32
			return resourceproviders.UpdateInventory(ctx, c, host, "VCPU",
				resourceproviders.UpdateInventoryOpts{ResourceProviderGeneration: 1, Inventory: more}).Extract()
		}},
		{"get one inventory", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetInventory(ctx, c, host, "VCPU").Extract()
		}},
		{"get an unknown inventory", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetInventory(ctx, c, host, "VGPU").Extract()
		}},
		{"get all inventories", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetInventories(ctx, c, host).Extract()
		}},
		{"delete one inventory", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventory(ctx, c, host, "DISK_GB").ExtractErr()
		}},
		{"delete the inventory again", 404, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventory(ctx, c, host, "DISK_GB").ExtractErr()
		}},
	}
}

// traitSteps returns the calls for aggregates and traits.
func traitSteps(t *testing.T) []step {
	ctx := t.Context()
	generation := 3
	return []step{
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
		{"delete a trait that is in use", 409, func(c *gophercloud.ServiceClient) (any, error) {
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

// candidateSteps returns the calls for allocation candidates.
func candidateSteps(t *testing.T) []step {
	list := func(opts allocationcandidates.ListOpts) func(c *gophercloud.ServiceClient) (any, error) {
		return func(c *gophercloud.ServiceClient) (any, error) {
			page, err := allocationcandidates.List(c, opts).AllPages(t.Context())
			if err != nil {
				return nil, err
			}
			return allocationcandidates.ExtractAllocationCandidates(page)
		}
	}
	return []step{
		{"candidates", 0, list(allocationcandidates.ListOpts{Resources: "VCPU:2,MEMORY_MB:4", MemberOf: []string{rack},
			InTree: host})},
		{"candidates of groups", 0, list(allocationcandidates.ListOpts{Resources: "VCPU:2", InTree: host, GroupPolicy: "none",
			Limit: 100, SameSubtree: []string{"_A,_B"},
			ResourceGroups: map[string]allocationcandidates.ResourceGroup{
				"_A": {Resources: "SRIOV_NET_VF:1", Required: []string{"HW_NIC_SRIOV"}}, "_B": {Resources: "CUSTOM_TIN:1",
					InTree: host}}})},
		{"no candidates", 0, list(allocationcandidates.ListOpts{Resources: "VCPU:9"})},
		{"candidates with an unknown trait", 400, list(allocationcandidates.ListOpts{Resources: "VCPU:1",
			Required: []string{"CUSTOM_NONE"}})},
	}
}

// allocationSteps returns the calls for allocations and usages.
func allocationSteps(t *testing.T) []step {
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
	return []step{
		{"claim", 0, update(claim(nil, some))},
		{"claim with an old generation", 409, update(claim(nil, some))},
		{"claim too much", 409, update(claim(&first, map[string]map[string]int{host: {"VCPU": 9}}))},
		{"get the claim", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return allocations.Get(ctx, c,
				server).Extract()
		}},
		{"move the claim to a migration", 0, func(c *gophercloud.ServiceClient) (any, error) {
			moved := claim(nil, some)
			moved.ConsumerType = "MIGRATION"
			return nil, allocations.Manage(ctx, c, allocations.ManageOpts{server: claim(&first, nil),
				migration: moved}).ExtractErr()
		}},
		{"get the claim of the server after the move", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return allocations.Get(ctx, c,
				server).Extract()
		}},
		{"get the claim of the migration", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return allocations.Get(ctx, c,
				migration).Extract()
		}},
		{"get the allocations of the host", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetAllocations(ctx, c, host).Extract()
		}},
		{"get the usages of the host", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return resourceproviders.GetUsages(ctx, c, host).Extract()
		}},
		{"get the usages of the project", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return usages.Get(ctx, c, usages.GetOpts{ProjectID: "nine"}).Extract()
		}},
		{"get the usages by consumer type", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return usages.Get(ctx, c, usages.GetOpts{ProjectID: "nine", UserID: "user", ConsumerType: "all"}).Extract()
		}},
		{"delete the inventories of a used host", 409, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventories(ctx, c, host).ExtractErr()
		}},
	}
}

// deleteSteps returns the calls that delete everything.
func deleteSteps(t *testing.T) []step {
	ctx := t.Context()
	remove := func(id string) func(c *gophercloud.ServiceClient) (any, error) {
		return func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.Delete(ctx, c, id).ExtractErr()
		}
	}
	return []step{
		{"release", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, allocations.Delete(ctx, c, migration).ExtractErr()
		}},
		{"release again", http.StatusNotFound, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, allocations.Delete(ctx, c, migration).ExtractErr()
		}},
		{"delete the inventories of the NIC", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteInventories(ctx, c, nic).ExtractErr()
		}},
		{"delete the traits of the NIC", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceproviders.DeleteTraits(ctx, c, nic).ExtractErr()
		}},
		{"delete a host with a child", 409, remove(host)},
		{"delete the NIC", 0, remove(nic)},
		{"delete the host", 0, remove(host)},
		{"delete the host again", 404, remove(host)},
		{"delete the trait", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, traits.Delete(ctx, c, "CUSTOM_SHINY").ExtractErr()
		}},
		{"delete the class", 0, func(c *gophercloud.ServiceClient) (any, error) {
			return nil, resourceclasses.Delete(ctx, c, "CUSTOM_TIN").ExtractErr()
		}},
	}
}
