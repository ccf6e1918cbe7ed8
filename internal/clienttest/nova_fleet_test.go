//go:build nova

package clienttest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
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
	if _, status := n.berth(t, program, "host", "show", "cmp9"); status != 1 {
		t.Errorf("an unknown host: status %d", status)
	}
}
