package clienttest

import (
	"net/http"
	"strings"
	"testing"
)

// StartNetwork starts `berth up` on the host cmp1, and adds its compute, network and image services to the catalog. It
// returns the address of the network service.
func (c *Cloud) StartNetwork(t testing.TB) (address string) {
	t.Helper()
	u := startUp(t, c.keystoneOptions())
	for service, url := range map[string]string{"network": u.network, "compute": u.compute + "/v2.1", "image": u.image} {
		c.Endpoint(t, c.Service(t, service), c.Region, url)
	}
	return u.network
}

// reportNetworkAgent reports an agent of cmp1 to a network service.
func (c *Cloud) reportNetworkAgent(t testing.TB, address string) {
	t.Helper()
	reportNetworkAgentAs(t, address, func(r *http.Request) {
		r.Header.Set("X-Auth-Token", c.Token(t, "placement", "placement", "service"))
	})
}

// reportNetworkAgentAs reports an agent of cmp1 to a network service with an account that sign adds to the request.
func reportNetworkAgentAs(t testing.TB, address string, sign func(*http.Request)) {
	t.Helper()
	body := `{"binary": "berth-agent", "start": "1", "resources_synced": true, "devices": [{"name": "br-ex",
		"provider": "33333333-3333-4333-8333-333333333333", "physical_networks": ["physnet0", "physnet1"]}]}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		address+"/berth/v1/network-agents/cmp1/Open%20vSwitch%20agent", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	sign(request)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("the report of an agent: %s", response.Status)
	}
}
