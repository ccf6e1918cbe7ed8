package operations

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
)

// bindPort creates a port of a vnic type on the host of a cloud, and returns its binding.
func (c *cloud) bindPort(t testing.TB, vnic string, profile map[string]any) store.Binding {
	t.Helper()
	p, err := c.CreatePort(t.Context(), store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID,
		Binding: store.Binding{Host: host, VNIC: vnic, Profile: profile}}, nil)
	must(t, err)
	p, err = Get[store.Port](t.Context(), c.Service, p.ID) // as it is stored
	must(t, err)
	return p.Binding
}

// TestSilentAgentBindsNothing binds ports before and after the agents of a host stop reporting themselves. A further
// report binds the port that could not be bound.
func TestSilentAgentBindsNothing(t *testing.T) {
	c := newCloud(t)
	start := time.Now()
	clock(c.Service, start.Add(AgentDownTime-time.Second))
	if b := c.bindPort(t, "normal", nil); b.VIF != "ovs" || b.Reason != "" {
		t.Errorf("before the agents are silent: %+v", b)
	}
	bound := c.boundPort(t, "normal", c.policy(t, bwRule("egress", 100)), onBridge(), nil)
	clock(c.Service, start.Add(2*AgentDownTime))
	failed, err := c.CreatePort(t.Context(), store.Port{Network: c.network.ID,
		Binding: store.Binding{Host: host, VNIC: "normal"}}, nil)
	must(t, err)
	if b := failed.Binding; b.VIF != "binding_failed" || !strings.Contains(b.Reason, "has stopped reporting itself") {
		t.Errorf("by a silent agent: %+v", b)
	}
	if b := c.bindPort(t, "normal", map[string]any{"allocation": map[string]any{"x": string(bridge)}}); b.VIF !=
		"binding_failed" || !strings.HasPrefix(b.Reason, "the Open vSwitch agent: it has stopped") {
		t.Errorf("by a silent agent with the allocation: %+v", b)
	}
	policy := c.policy(t, bwRule("egress", 100), ppsRule("egress", 10))
	if p, err := c.setPolicy(t.Context(), bound.ID, policy); err != nil || len(p.Allocated) != 2 ||
		p.Binding.VIF != "ovs" {
		t.Errorf("the policy of a bound port: %+v %v", p.Allocated, err)
	}
	must(t, Agents{c.Service}.ReportAgent(t.Context(), host, string(bandwidth.OpenVSwitch), ovsReport()))
	if p, err := Get[store.Port](t.Context(), c.Service, failed.ID); err != nil || p.Binding.VIF != "ovs" ||
		p.Binding.Reason != "" || p.Status != "ACTIVE" {
		t.Errorf("after a report: %+v %v", p.Binding, err)
	}
	if b := c.bindPort(t, "macvtap", nil); !strings.Contains(b.Reason, "the NIC Switch agent: it has stopped") {
		t.Errorf("by the agent that is still silent: %+v", b)
	}
}

// onBridge is an allocation of bandwidth on the bridge.
func onBridge() map[string]provider.ID {
	return map[string]provider.ID{"minimum_bandwidth": bridge}
}

// TestRestartedServiceBindsAtOnce opens a database whose agents have been silent for an hour, because the service was
// stopped: it binds by them until they could have reported themselves.
func TestRestartedServiceBindsAtOnce(t *testing.T) {
	c := newCloud(t)
	start := time.Now().Add(time.Hour)
	clock(c.Service, start)
	failed, err := c.CreatePort(t.Context(), store.Port{Network: c.network.ID,
		Binding: store.Binding{Host: host, VNIC: "normal"}}, nil)
	if err != nil || failed.Binding.VIF != "binding_failed" {
		t.Errorf("by a silent agent: %+v %v", failed.Binding, err)
	}
	c.agents = newLiveness(start)
	if b := c.bindPort(t, "normal", nil); b.VIF != "ovs" {
		t.Errorf("right after the start: %+v", b)
	}
	clock(c.Service, start.Add(AgentDownTime))
	if b := c.bindPort(t, "normal", nil); b.VIF != "binding_failed" {
		t.Errorf("later: %+v", b)
	}
	c.agents = newLiveness(start.Add(AgentDownTime))
	must(t, Agents{c.Service}.ReportAgent(t.Context(), host, string(bandwidth.OpenVSwitch), ovsReport()))
	if p, err := Get[store.Port](t.Context(), c.Service, failed.ID); err != nil || p.Binding.VIF != "ovs" {
		t.Errorf("after a report: %+v %v", p.Binding, err)
	}
}

// ovsReport returns the report of the Open vSwitch agent of a cloud.
func ovsReport() network.AgentReport {
	return network.AgentReport{Provider: string(ovs), Root: string(root), Devices: []network.AgentDevice{{Name: "br-ex",
		Provider: string(bridge), PhysicalNetworks: []string{"physnet0"}}}}
}

// TestWallClockMakesNoAgentSilent compares reports of this process by the time since them, and those of another process
// by the wall clock.
func TestWallClockMakesNoAgentSilent(t *testing.T) {
	now := time.Now()
	l := newLiveness(now.Add(-time.Hour))
	l.reported("here", now.Add(-AgentDownTime/2))
	l.reported("gone", now.Add(-2*AgentDownTime))
	for _, c := range []struct {
		id   string
		wall time.Duration // of the heartbeat in the database, from now
		want bool
	}{{"here", -time.Hour, false}, {"here", time.Hour, false}, {"gone", -2 * AgentDownTime, true},
		{"gone", time.Hour, true}, {"elsewhere", -AgentDownTime / 2, false}, {"elsewhere", -AgentDownTime, true}} {
		a := store.Agent{Base: store.Base{ID: c.id}, Heartbeat: now.Add(c.wall).UnixMicro()}
		if got := l.silent(a, now); got != c.want {
			t.Errorf("%+v: silent %t", c, got)
		}
	}
}

// TestVNICTypesOfAgents binds direct ports to a host whose agents serve one physical network: the SR-IOV agent gets
// them, unless the port is offloaded. The vnic types that an agent reports restrict it.
func TestVNICTypesOfAgents(t *testing.T) {
	c := newCloud(t)
	offloaded := map[string]any{"capabilities": []any{"switchdev"}}
	if b := c.bindPort(t, "direct", nil); b.VIF != "hw_veb" {
		t.Errorf("a direct port: %+v", b)
	}
	if b := c.bindPort(t, "direct", offloaded); b.VIF != "ovs" {
		t.Errorf("an offloaded direct port: %+v", b)
	}
	report := ovsReport()
	report.VNICTypes = []string{"normal", "vdpa"}
	must(t, Agents{c.Service}.ReportAgent(t.Context(), host, string(bandwidth.OpenVSwitch), report))
	if b := c.bindPort(t, "vdpa", nil); b.VIF != "ovs" {
		t.Errorf("vdpa: %+v", b)
	}
	failed, err := c.CreatePort(t.Context(), store.Port{Network: c.network.ID,
		Binding: store.Binding{Host: host, VNIC: "direct", Profile: offloaded}}, nil)
	must(t, err)
	if b := failed.Binding; !strings.Contains(b.Reason, "[ovs_driver] vnic_type_prohibit_list prohibits") {
		t.Errorf("a prohibited type: %+v", b)
	}
	report.VNICTypes = nil
	must(t, Agents{c.Service}.ReportAgent(t.Context(), host, string(bandwidth.OpenVSwitch), report))
	if p, err := Get[store.Port](t.Context(), c.Service, failed.ID); err != nil || p.Binding.VIF != "ovs" {
		t.Errorf("after the type is permitted: %+v %v", p.Binding, err)
	}
}
