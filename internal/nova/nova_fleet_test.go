//go:build nova

package nova

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/openberth/berth/internal/bench"
)

// berth runs a client command as the administrator of the cloud, and returns its standard output and its exit status.
func (n *nova) berth(t *testing.T, program string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), n.Credentials(n.Region)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	t.Logf("berth %s: status %d\n%s%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), &stdout, &stderr)
	return stdout.String(), cmd.ProcessState.ExitCode()
}

// TestNovaFleet reads a cloud of Nova with the commands on hosts and devices.
func TestNovaFleet(t *testing.T) {
	n := startNova(t)
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n.hosts(t)
	watched := watch(t, n.Cloud, program, "server")
	made, err := servers.Create(t.Context(), n.api, servers.CreateOpts{Name: "web", ImageRef: image,
		FlavorRef: n.flavor(t, "small", 1, 256, 1), Networks: "none"}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	n.await(t, made.ID, "ACTIVE")
	root := n.holds(t, made.ID, map[string]int{"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1})
	parent, err := resourceproviders.Get(t.Context(), n.placement, root).Extract()
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := resourceproviders.Create(t.Context(), n.placement, resourceproviders.CreateOpts{
		Name: parent.Name + "_0000:81:00.0", ParentProviderUUID: root}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resourceproviders.UpdateInventories(t.Context(), n.placement, gpu.UUID,
		resourceproviders.UpdateInventoriesOpts{ResourceProviderGeneration: gpu.Generation,
			Inventories: map[string]resourceproviders.Inventory{"PGPU": {Total: 1, MaxUnit: 1, MinUnit: 1, StepSize: 1,
				AllocationRatio: 1}}}).Extract(); err != nil {
		t.Fatal(err)
	}
	var devices []struct {
		Host, Address, Kind string
		Class               string `json:"resource_class"`
		Capacity            int
	}
	out, status := n.berth(t, program, "device", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &devices); err != nil || status != 0 || len(devices) != 1 ||
		devices[0].Host != parent.Name || devices[0].Address != "0000:81:00.0" || devices[0].Kind != "pci" ||
		devices[0].Class != "PGPU" || devices[0].Capacity != 1 {
		t.Errorf("%v %+v", err, devices)
	}
	for want, args := range map[string]string{"0/1": "device list", "available": "device show " + parent.Name +
		" 0000:81:00.0", "web": "host show " + parent.Name, "cmp2": "host list"} {
		if out, status := n.berth(t, program, strings.Fields(args)...); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, no %s", args, status, want)
		}
	}
	large, err := servers.Create(t.Context(), n.api, servers.CreateOpts{Name: "large", ImageRef: image,
		FlavorRef: n.flavor(t, "huge", 1, 256, 999999), Networks: "none"}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the server that fits nowhere is in ERROR", func() error {
		s, err := servers.Get(t.Context(), n.api, large.ID).Extract()
		if err == nil && s.Status != "ERROR" {
			err = errors.New("it is " + s.Status)
		}
		return err
	})
	out, status = n.berth(t, program, "why", "large")
	for _, text := range []string{"No valid host", "create: Error", "now Placement has no candidates", "DISK_GB"} {
		if status != 0 || !strings.Contains(out, text) {
			t.Errorf("why: status %d, no %q", status, text)
		}
	}
	n.headroom(t, program, parent.Name)
	out, status = n.berth(t, program, "tree", parent.Name)
	if status != 0 || !strings.Contains(out, "└─ "+parent.Name+"_0000:81:00.0  PGPU 0/1") ||
		!strings.Contains(out, "held by web") {
		t.Errorf("tree: status %d", status)
	}
	if _, status := n.berth(t, program, "host", "show", "cmp9"); status != 1 {
		t.Errorf("an unknown host: status %d", status)
	}
	for _, id := range []string{made.ID, large.ID} { // the second one was never on a host
		if err := servers.Delete(t.Context(), n.api, id).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		testenv.Until(t, "berth watch prints the server from its creation to its end", func() error {
			var actions []string
			for _, e := range watched(id) {
				if e.Action != "changed" {
					actions = append(actions, e.Action)
				}
			}
			if strings.Join(actions, " ") != "created deleted" {
				return fmt.Errorf("it has printed %q", actions)
			}
			return nil
		})
	}
}

// headroom counts servers that fit, with and without a disabled host, and compares the count with what Placement has.
func (n *nova) headroom(t *testing.T, program, host string) {
	t.Helper()
	count := func(args ...string) (fits map[string]int, all int) {
		t.Helper()
		out, status := n.berth(t, program, append([]string{"headroom", "small", "-o", "json"}, args...)...)
		var list []struct {
			Fits  int
			Exact bool
			Hosts []struct {
				Host, Excluded string
				Fits           int
			}
			Groups []struct {
				Name string
				Fits int
			}
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || len(list) != 1 || !list[0].Exact {
			t.Fatalf("status %d: %v", status, err)
		}
		fits = map[string]int{}
		for _, h := range list[0].Hosts {
			fits[h.Host] = h.Fits
		}
		for _, group := range list[0].Groups {
			fits["group "+group.Name] = group.Fits
		}
		return fits, list[0].Fits
	}
	before, all := count("--by", "zone")
	root, err := resourceproviders.List(n.placement, resourceproviders.ListOpts{Name: host}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := resourceproviders.ExtractResourceProviders(root)
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %+v", err, found)
	}
	inventories, err := resourceproviders.GetInventories(t.Context(), n.placement, found[0].UUID).Extract()
	if err != nil {
		t.Fatal(err)
	}
	usages, err := resourceproviders.GetUsages(t.Context(), n.placement, found[0].UUID).Extract()
	if err != nil {
		t.Fatal(err)
	}
	want := -1
	for class, each := range map[string]int{"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1} {
		i := inventories.Inventories[class]
		capacity := int(float64(i.Total-i.Reserved) * float64(i.AllocationRatio))
		if fits := (capacity - usages.Usages[class]) / each; want < 0 || fits < want {
			want = fits
		}
	}
	if before[host] != want || before["group nova"] != all || all <= want {
		t.Errorf("%d fit on %s, want %d: %v", before[host], host, want, before)
	}
	pages, err := services.List(n.api, services.ListOpts{Binary: "nova-compute"}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := services.ExtractServices(pages)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Host == host {
			if _, err := services.Update(t.Context(), n.api, s.ID, services.UpdateOpts{Status: services.ServiceDisabled,
				DisabledReason: "repair"}).Extract(); err != nil {
				t.Fatal(err)
			}
		}
	}
	after, left := count()
	if after[host] != 0 || left != all-want {
		t.Errorf("%d fit after %s is disabled, want %d: %v", left, host, all-want, after)
	}
}

// difference is what the audit reports.
type difference struct {
	Rule, Subject, Kept string
	Change              json.RawMessage
}

// differences runs the audit, which must end with a status, and returns the rules by subject.
func (n *nova) differences(t *testing.T, program string, want int) map[string]string {
	t.Helper()
	out, status := n.berth(t, program, "audit", "--between-looks", "5s", "-o", "json")
	var found struct{ Differences []difference }
	if err := json.Unmarshal([]byte(out), &found); err != nil || status != want {
		t.Fatalf("status %d, want %d: %v", status, want, err)
	}
	rules := map[string]string{}
	for _, d := range found.Differences {
		rules[d.Subject] = d.Rule
	}
	return rules
}

// TestNovaAudit damages the Placement of a cloud of Nova by hand. The audit finds each damage and nothing else, heals
// it, and undoes that.
func TestNovaAudit(t *testing.T) {
	n := startNova(t)
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hosts := n.hosts(t)
	flavor := n.flavor(t, "small", 1, 256, 1)
	full := map[string]int{"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1}
	ids := map[string]string{}
	for _, name := range []string{"right", "bare", "large", "twice", "resized"} {
		made, err := servers.Create(t.Context(), n.api, servers.CreateOpts{Name: name, ImageRef: image, FlavorRef: flavor,
			Networks: "none"}, nil).Extract()
		if err != nil {
			t.Fatal(err)
		}
		n.await(t, made.ID, "ACTIVE")
		ids[name] = made.ID
	}
	if err := servers.Resize(t.Context(), n.api, ids["resized"], servers.ResizeOpts{
		FlavorRef: n.flavor(t, "big", 2, 512, 2)}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	n.await(t, ids["resized"], "VERIFY_RESIZE") // the migration holds the source, which is right
	if found := n.differences(t, program, 0); len(found) != 0 {
		t.Fatalf("a cloud without damage has differences: %v", found)
	}

	put := func(consumer string, held map[string]allocations.ProviderAllocationsOpts, generation *int) {
		t.Helper()
		opts := allocations.UpdateOpts{ProjectID: "p", UserID: "u", ConsumerType: "INSTANCE", Allocations: held,
			ConsumerGeneration: generation}
		if err := allocations.Update(t.Context(), n.placement, consumer, opts).ExtractErr(); err != nil {
			t.Fatal(err)
		}
	}
	now := func(name string) (string, *int) {
		t.Helper()
		all, err := allocations.Get(t.Context(), n.placement, ids[name]).Extract()
		if err != nil {
			t.Fatal(err)
		}
		for provider := range all.Allocations {
			return provider, all.ConsumerGeneration
		}
		t.Fatalf("%s has no allocation", name)
		return "", nil
	}
	share := func(amounts map[string]int) allocations.ProviderAllocationsOpts {
		return allocations.ProviderAllocationsOpts{Resources: amounts}
	}
	if err := allocations.Delete(t.Context(), n.placement, ids["bare"]).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	at, generation := now("large")
	put(ids["large"], map[string]allocations.ProviderAllocationsOpts{
		at: share(map[string]int{"VCPU": 1, "MEMORY_MB": 300, "DISK_GB": 1})}, generation)
	at, generation = now("twice")
	held := map[string]allocations.ProviderAllocationsOpts{}
	for host := range hosts {
		held[host] = share(full)
	}
	put(ids["twice"], held, generation)
	put(missing, map[string]allocations.ProviderAllocationsOpts{at: share(map[string]int{"VCPU": 1})}, nil)
	left, err := resourceproviders.Create(t.Context(), n.placement, resourceproviders.CreateOpts{Name: "cmp9"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resourceproviders.UpdateInventories(t.Context(), n.placement, left.UUID,
		resourceproviders.UpdateInventoriesOpts{ResourceProviderGeneration: left.Generation,
			Inventories: map[string]resourceproviders.Inventory{"VCPU": {Total: 8, MaxUnit: 8, MinUnit: 1, StepSize: 1,
				AllocationRatio: 1}}}).Extract(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ids["bare"]: "server without allocation", ids["large"]: "allocation too large",
		ids["twice"]: "allocation on a second host", missing: "orphaned allocation", left.UUID: "provider without service"}
	if found := n.differences(t, program, 3); !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	undo := filepath.Join(t.TempDir(), "undo.json")
	_, status := n.berth(t, program, "audit", "--between-looks", "5s", "--heal", "--yes", "--undo-file", undo)
	if status != 0 {
		t.Errorf("healing: status %d", status)
	}
	n.differences(t, program, 0)
	for _, name := range []string{"bare", "large", "twice"} {
		n.holds(t, ids[name], full)
	}
	n.manage(t, 0, "placement", "audit", "--verbose")
	if _, status := n.berth(t, program, "audit", "--undo", undo); status != 0 {
		t.Errorf("undoing: status %d", status)
	}
	if found := n.differences(t, program, 3); !maps.Equal(found, want) {
		t.Errorf("after the undo there are %v, want %v", found, want)
	}
}
