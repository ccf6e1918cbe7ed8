package app

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// TestAgentIsANetworkAgent reads the agents of the network service, as `openstack network agent list` does: the agent
// of the host is alive, Placement has what it reports, and a port is bound to it.
func TestAgentIsANetworkAgent(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.up("[ovs]\nbridge_mappings = physnet0:br-ex\nresource_provider_bandwidths = br-ex:1000:1000\n")
	defer l.down()
	ctx, client := t.Context(), l.cloud.NetworkClient()
	testenv.Until(t, "the agent is alive", func() error { return alive(l, url.Values{"host": {"cmp1"}}) })
	n, err := client.CreateNetwork(ctx, map[string]any{"provider:network_type": "flat",
		"provider:physical_network": "physnet0"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := client.CreatePort(ctx, map[string]any{"network_id": n.ID, "binding:host_id": "cmp1"})
	if err != nil || p.VIF != "ovs" || p.Status != "ACTIVE" {
		t.Errorf("%+v %v", p, err)
	}
}

// alive returns nil if the network service has one agent, which is alive and synced.
func alive(l *lab, q url.Values) error {
	agents, err := l.cloud.NetworkClient().Agents(l.t.Context(), q)
	if err != nil {
		return err
	}
	if len(agents) != 1 || !agents[0].Alive || agents[0].Synced == nil || !*agents[0].Synced ||
		agents[0].Type != "Open vSwitch agent" {
		return fmt.Errorf("the agents: %+v", agents)
	}
	return nil
}
