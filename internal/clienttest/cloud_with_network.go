package clienttest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
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

// reportNetworkAgent reports an agent of cmp1 to a network service until the test ends. The service binds no ports to a
// host whose agent is silent for 75 seconds, and on a busy machine the lines of a test take longer.
func (c *Cloud) reportNetworkAgent(t testing.TB, address string) {
	t.Helper()
	token := c.Token(t, "placement", "placement", "service")
	reportNetworkAgentAs(t, address, func(r *http.Request) { r.Header.Set("X-Auth-Token", token) })
}

// reportNetworkAgentAs reports an agent as reportNetworkAgent does, with an account that sign adds to the request.
func reportNetworkAgentAs(t testing.TB, address string, sign func(*http.Request)) {
	t.Helper()
	if err := reportNetworkAgentOnce(t.Context(), address, sign); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for again := time.NewTicker(10 * time.Second); ; {
			select {
			case <-again.C:
			case <-ctx.Done():
				again.Stop()
				return
			}
			if err := reportNetworkAgentOnce(ctx, address, sign); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
}

// reportNetworkAgentOnce reports an agent of cmp1 to a network service.
func reportNetworkAgentOnce(ctx context.Context, address string, sign func(*http.Request)) error {
	body := `{"binary": "berth-agent", "start": "1", "resources_synced": true, "devices": [{"name": "br-ex",
		"provider": "33333333-3333-4333-8333-333333333333", "physical_networks": ["physnet0", "physnet1"]}]}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPut,
		address+"/berth/v1/network-agents/cmp1/Open%20vSwitch%20agent", strings.NewReader(body))
	if err != nil {
		return err
	}
	sign(request)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the report of an agent: %s", response.Status)
	}
	return nil
}
