//go:build nova

package nova

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
)

// TestNova runs Nova with Berth as its Placement: hosts report, servers get claims, claims are moved and deleted,
// and Nova's own checks of Placement find no problems, or repair them.
func TestNova(t *testing.T) {
	n := startNova(t)
	hosts := n.hosts(t)
	small, big := n.flavor(t, "small", 1, 256, 1), n.flavor(t, "big", 2, 512, 2)
	n.tool(t, 0, "nova-status", "upgrade", "check")

	made, err := servers.Create(t.Context(), n.api, servers.CreateOpts{Name: "s", ImageRef: image, FlavorRef: small,
		Networks: "none"}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	id := made.ID
	n.await(t, id, "ACTIVE")
	first := n.holds(t, id, map[string]int{"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1})
	t.Logf("the server is ACTIVE on %s with the resources of its flavor", hosts[first])

	if err := servers.Resize(t.Context(), n.api, id, servers.ResizeOpts{FlavorRef: big}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	n.await(t, id, "VERIFY_RESIZE")
	second := n.holds(t, id, map[string]int{"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 2})
	if first == second {
		t.Errorf("the server is still on %s", hosts[first])
	}
	if used := n.used(t, first); used["VCPU"] != 1 { // held by the migration, until it is confirmed
		t.Errorf("before the resize is confirmed, the usage of %s is %v", hosts[first], used)
	}
	if err := servers.ConfirmResize(t.Context(), n.api, id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	n.await(t, id, "ACTIVE")
	n.empty(t, first)
	t.Logf("the server moved to %s, and %s is free", hosts[second], hosts[first])

	if err := allocations.Delete(t.Context(), n.placement, id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	output := n.manage(t, 0, "placement", "heal_allocations", "--verbose")
	if !strings.Contains(output, id) {
		t.Errorf("the deleted claim is not repaired: %s", output)
	}
	n.holds(t, id, map[string]int{"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 2})
	n.manage(t, 4, "placement", "heal_allocations") // nothing to repair
	n.audit(t, first)

	if err := servers.Delete(t.Context(), n.api, id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	n.empty(t, second)
	n.tool(t, 0, "nova-status", "upgrade", "check")
}

// hosts waits until both hosts have reported and can be scheduled, and returns their names by provider ID.
func (n *nova) hosts(t *testing.T) map[string]string {
	t.Helper()
	hosts := map[string]string{}
	testenv.Until(t, "both hosts are in Placement", func() error {
		page, err := resourceproviders.List(n.placement,
			resourceproviders.ListOpts{Resources: "VCPU:1,MEMORY_MB:1,DISK_GB:1"}).AllPages(t.Context())
		if err != nil {
			return err
		}
		all, err := resourceproviders.ExtractResourceProviders(page)
		for _, p := range all {
			hosts[p.UUID] = p.Name
		}
		if err == nil && !slices.Equal(slices.Sorted(maps.Values(hosts)), []string{"cmp1", "cmp2"}) {
			err = fmt.Errorf("there are %v", hosts)
		}
		return err
	})
	for id, name := range hosts {
		testenv.Until(t, name+" has its traits", func() error {
			has, err := resourceproviders.GetTraits(t.Context(), n.placement, id).Extract()
			if err == nil && !slices.Contains(has.Traits, "COMPUTE_NODE") {
				err = fmt.Errorf("it has %v", has.Traits)
			}
			return err
		})
	}
	testenv.Until(t, "both hosts are in the cell", func() error {
		if output := n.manage(t, 0, "cell_v2", "list_hosts"); !strings.Contains(output, "cmp1") ||
			!strings.Contains(output, "cmp2") {
			return fmt.Errorf("there are\n%s", output)
		}
		return nil
	})
	return hosts
}

// flavor creates a flavor and returns its ID.
func (n *nova) flavor(t *testing.T, name string, cpus, mib, gib int) (id string) {
	t.Helper()
	f, err := flavors.Create(t.Context(), n.api, flavors.CreateOpts{Name: name, VCPUs: cpus, RAM: mib,
		Disk: &gib}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return f.ID
}

// await waits until a server has a status.
func (n *nova) await(t *testing.T, id, status string) {
	t.Helper()
	testenv.Until(t, "the server is "+status, func() error {
		s, err := servers.Get(t.Context(), n.api, id).Extract()
		if err == nil && s.Status == "ERROR" {
			t.Fatalf("the server is in ERROR: %+v", s.Fault)
		}
		if err == nil && s.Status != status {
			err = fmt.Errorf("it is %s", s.Status)
		}
		return err
	})
}

// holds waits until a server has these resources on one host, and returns the provider of the host.
func (n *nova) holds(t *testing.T, id string, want map[string]int) (provider string) {
	t.Helper()
	testenv.Until(t, "the server has its claim", func() error {
		all, err := allocations.Get(t.Context(), n.placement, id).Extract()
		if err != nil {
			return err
		}
		for of, has := range all.Allocations {
			if provider = of; len(all.Allocations) == 1 && maps.Equal(has.Resources, want) {
				return nil
			}
		}
		return fmt.Errorf("it has %v, not %v", all.Allocations, want)
	})
	return provider
}

// used returns the usage of a provider.
func (n *nova) used(t *testing.T, provider string) map[string]int {
	t.Helper()
	used, err := resourceproviders.GetUsages(t.Context(), n.placement, provider).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return used.Usages
}

// empty waits until nothing is used on a host.
func (n *nova) empty(t *testing.T, provider string) {
	t.Helper()
	testenv.Until(t, "a host is free", func() error {
		for class, amount := range n.used(t, provider) {
			if amount != 0 {
				return fmt.Errorf("%d %s are still used", amount, class)
			}
		}
		return nil
	})
}

// audit creates an allocation without a server, and lets Nova's tool find and delete it.
func (n *nova) audit(t *testing.T, provider string) {
	t.Helper()
	n.manage(t, 0, "placement", "audit", "--verbose")
	orphan := allocations.UpdateOpts{ProjectID: "orphan", UserID: "orphan", ConsumerType: "INSTANCE",
		Allocations: map[string]allocations.ProviderAllocationsOpts{provider: {Resources: map[string]int{"VCPU": 1}}}}
	if err := allocations.Update(t.Context(), n.placement, missing, orphan).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	n.manage(t, 3, "placement", "audit", "--verbose")
	n.manage(t, 4, "placement", "audit", "--verbose", "--delete")
	n.manage(t, 0, "placement", "audit", "--verbose")
	n.empty(t, provider)
}
