package clienttest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/glance"
	"github.com/openberth/berth/internal/keystone"
)

// StartCompute starts `berth up` and adds its compute to the catalog, and starts OpenStack's image service with one
// public image, whose id it returns. networks is the address of its network service, which is not in the catalog.
func (c *Cloud) StartCompute(t testing.TB) (image, networks string) {
	t.Helper()
	images := glance.Start(t, c.Keystone)
	image = images.Image(t, c.Admin(t), keystone.Doc{"name": "cirros", "visibility": "public"}, "data")
	u := startUp(t, c.keystoneOptions(), "[glance]", "endpoint_override = "+images.URL, "auth_type = password",
		"auth_url = "+c.Keystone.URL, "username = "+c.Keystone.AdminUser, "password = "+c.Keystone.AdminPassword,
		"project_name = "+c.Keystone.AdminProject, "user_domain_name = Default", "project_domain_name = Default",
		"[DEFAULT]", "reclaim_instance_interval = 3600")
	c.Endpoint(t, c.Service(t, "compute"), c.Region, u.compute+"/v2.1")
	return image, u.network
}

// addresses are those of the services of a `berth up`, as URLs.
type addresses struct{ compute, network, image string }

// startUp starts `berth up` on the host cmp1, with the fake hypervisor, these lines for its accounts, and more lines.
// It serves images itself if more has no section [glance].
func startUp(t testing.TB, accounts string, more ...string) addresses {
	t.Helper()
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sysfs, config := filepath.Join(dir, "machine.txtar"), filepath.Join(dir, "berth.conf")
	Write(t, sysfs, "A machine without devices.\n-- bus/pci/devices/.keep --\n")
	lines := append([]string{"[DEFAULT]", "host = cmp1", "compute_driver = fake.FakeDriver",
		"allow_resize_to_same_host = true", "[oslo_concurrency]", "lock_path = " + dir, "[berth]", "sysfs = " + sysfs,
		"[ml2]", "tenant_network_types = vlan", "[ml2_type_vlan]", "network_vlan_ranges = physnet0:100:199,physnet1",
		accounts}, more...)
	Write(t, config, strings.Join(append(lines, ""), "\n"))
	compute, network, image := Free(t), Free(t), Free(t)
	args := []string{program, "up", "--config-file", config, "--data-dir", filepath.Join(dir, "data"),
		"--listen", "none", "--listen-console", "none",
		"--listen-placement", "127.0.0.1:0", "--listen-compute", compute, "--listen-network", network}
	if !slices.Contains(more, "[glance]") {
		args = append(args, "--listen-image", image)
	}
	Run(t, filepath.Join(dir, "berth.log"), network, args...)
	return addresses{compute: "http://" + compute, network: "http://" + network, image: "http://" + image}
}
