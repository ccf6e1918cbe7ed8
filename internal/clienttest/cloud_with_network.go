package clienttest

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/bench"
)

// StartNetwork starts `berth up` on the host cmp1, and adds its compute, network and image services to the catalog. It
// returns the address of the network service, which trusts its callers there.
func (c *Cloud) StartNetwork(t testing.TB) (address string) {
	t.Helper()
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sysfs, config := filepath.Join(dir, "machine.txtar"), filepath.Join(dir, "berth.conf")
	Write(t, sysfs, "A machine without devices.\n-- bus/pci/devices/.keep --\n")
	Write(t, config, strings.Join([]string{"[DEFAULT]", "host = cmp1", "compute_driver = fake.FakeDriver",
		"[api]", "auth_strategy = noauth2",
		"[oslo_concurrency]", "lock_path = " + dir, "[ml2]", "tenant_network_types = vlan", "[ml2_type_vlan]",
		"network_vlan_ranges = physnet0:100:199,physnet1", "[berth]", "sysfs = " + sysfs, ""}, "\n"))
	compute, network, image := Free(t), Free(t), Free(t)
	Run(t, filepath.Join(dir, "berth.log"), network, program, "up", "--config-file", config,
		"--data-dir", filepath.Join(dir, "data"), "--listen-placement", "127.0.0.1:0", "--listen-compute", compute,
		"--listen-network", network, "--listen-image", image)
	for service, url := range map[string]string{"network": c.Authenticate(t, "http://"+network),
		"compute": c.Authenticate(t, "http://"+compute) + "/v2.1", "image": c.Authenticate(t, "http://"+image)} {
		c.Endpoint(t, c.Service(t, service), c.Region, url)
	}
	return "http://" + network
}

// reportNetworkAgent reports an agent of cmp1 to a network service that trusts its callers.
func reportNetworkAgent(t testing.TB, address string) {
	t.Helper()
	body := `{"binary": "berth-agent", "start": "1", "resources_synced": true, "devices": [{"name": "br-ex",
		"provider": "33333333-3333-4333-8333-333333333333", "physical_networks": ["physnet0", "physnet1"]}]}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		address+"/berth/v1/network-agents/cmp1/Open%20vSwitch%20agent", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Auth-Token", "agent:service")
	request.Header.Set("X-Roles", "service")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("the report of an agent: %s", response.Status)
	}
}
