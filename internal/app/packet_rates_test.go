package app

import (
	"maps"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ratesLab is a portsLab whose host has a packet rate of 100 kpps at the provider of its agent, too.
type ratesLab struct {
	*portsLab
	agent provider.ID
}

func newRatesLab(t *testing.T) ratesLab {
	t.Helper()
	l := ratesLab{portsLab: newPortsLabWith(t, "resource_provider_packet_processing_without_direction = :100\n",
		&faultyNetwork{})}
	l.agent = bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.OpenVSwitch}.ID()
	l.until("the packet rate is reported", func() bool {
		inv, err := l.cloud.PlacementClient().Inventories(t.Context(), l.agent)
		return err == nil && inv.Inventories[bandwidth.PacketRate].Total == 100
	})
	// The network service binds a port to the agent that has all providers of its allocation.
	err := l.cloud.NetworkClient().ReportAgent(t.Context(), "cmp1", string(bandwidth.OpenVSwitch), network.AgentReport{
		Binary: "test", Start: "s", Root: string(l.root), Provider: string(l.agent), Devices: []network.AgentDevice{{
			Name: "br-ex", Provider: string(l.bridge), PhysicalNetworks: []string{"physnet0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rates creates a policy that guarantees egress bandwidth in kilobits and packets of both directions in kilopackets per
// second.
func (l ratesLab) rates(kbps, kpps int) string {
	l.t.Helper()
	policy := l.policy(kbps)
	_, err := l.cloud.NetworkClient().CreateRule(l.t.Context(), policy, "minimum_packet_rate",
		map[string]any{"min_kpps": kpps, "direction": "any"})
	if err != nil {
		l.t.Fatal(err)
	}
	return policy
}

// has waits until a server holds these rates; 0, 0: no provider of the network.
func (l ratesLab) has(server string, kbps, kpps int) {
	l.t.Helper()
	want := resource.Allocation{}
	if kbps > 0 {
		want[l.bridge] = map[resource.Class]int{bandwidth.EgressBandwidth: kbps}
		want[l.agent] = map[resource.Class]int{bandwidth.PacketRate: kpps}
	}
	var held resource.Allocation
	ok := false
	defer func() {
		if !ok {
			l.t.Logf("%s holds %v, want %v", server, held, want)
		}
	}()
	l.until("the server holds its rates", func() bool {
		held = l.allocation(server)
		delete(held, l.root)
		ok = maps.EqualFunc(held, want, maps.Equal)
		return ok
	})
}

// TestBandwidthAndPacketRate creates, resizes, reverts, changes and deletes a server whose port has a guarantee of
// bandwidth and one of packets, which are groups of two providers (rows N5, T1, T9 to T12). A server with too much of
// one of them fails.
func TestBandwidthAndPacketRate(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newRatesLab(t)
	defer l.down()
	own := l.port(l.rates(4000, 40))
	s := l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}, {"port": own.ID}})
	l.has(s.ID, 4000, 40)
	for _, p := range l.ports(s.ID) {
		if groups := len(p.Allocation()); groups != map[bool]int{true: 2, false: 0}[p.ID == own.ID] {
			t.Errorf("port %s has the allocation of %d groups", p.ID, groups)
		}
	}
	for _, excess := range []string{l.rates(7000, 10), l.rates(1000, 70)} {
		failed := l.create("ERROR", []map[string]string{{"port": l.port(excess).ID}})
		if failed.Fault == nil || failed.Fault.Message == "" {
			t.Errorf("fault %+v", failed.Fault)
		}
		l.has(failed.ID, 0, 0)
		l.delete(failed.ID)
	}
	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	l.has(s.ID, 4000, 40)
	l.act(s.ID, "revertResize", "ACTIVE", nil)
	l.has(s.ID, 4000, 40)

	more := l.port(l.rates(3000, 30))
	if _, err := l.attach(s.ID, map[string]any{"port_id": more.ID}); err != nil {
		t.Fatal(err)
	}
	l.has(s.ID, 7000, 70)
	l.detach(s.ID, more.ID)
	l.has(s.ID, 4000, 40)

	client := l.cloud.NetworkClient()
	if _, err := client.UpdatePort(t.Context(), own.ID, map[string]any{"qos_policy_id": l.rates(5000, 20)}); err != nil {
		t.Fatal(err)
	}
	l.has(s.ID, 5000, 20)
	if _, err := client.UpdatePort(t.Context(), own.ID, map[string]any{"qos_policy_id": l.rates(20000, 20)}); err == nil {
		t.Error("a policy above the bandwidth of the bridge is accepted")
	}
	l.has(s.ID, 5000, 20)
	if _, err := client.UpdatePort(t.Context(), own.ID, map[string]any{"qos_policy_id": nil}); err != nil {
		t.Fatal(err)
	}
	l.has(s.ID, 0, 0)
	l.delete(s.ID)
}
