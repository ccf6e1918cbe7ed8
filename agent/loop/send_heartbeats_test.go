package loop

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
)

// networkAgents records reports. fail is the answer to all of them.
type networkAgents struct {
	mu      sync.Mutex
	fail    error
	reports []network.AgentReport
	types   []string
}

func (n *networkAgents) ReportAgent(_ context.Context, host, agentType string, r network.AgentReport) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reports, n.types = append(n.reports, r), append(n.types, host+" "+agentType)
	return n.fail
}

func (n *networkAgents) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.reports)
}

// last returns the last report of an agent of cmp1.
func (n *networkAgents) last(agentType bandwidth.AgentType) (r network.AgentReport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, of := range n.types {
		if of == "cmp1 "+string(agentType) {
			r = n.reports[i]
		}
	}
	return r
}

func TestHeartbeatsAreSent(t *testing.T) {
	scenario(t, "at the interval and after a change", func(t *testing.T, w *testHost) {
		agents := &networkAgents{}
		w.options.Network = agents
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000})
		_, stop := w.startReported()
		w.until("synced", func() bool {
			synced := agents.last(bandwidth.NICSwitch).Synced
			return synced != nil && *synced
		})
		time.Sleep(2 * heartbeatPoll)
		before := agents.count()
		time.Sleep(10 * heartbeatInterval)
		if n := agents.count() - before; n != 2*10 {
			t.Errorf("%d reports of 2 agents in 10 intervals", n)
		}
		ovs, nic := agents.last(bandwidth.OpenVSwitch), agents.last(bandwidth.NICSwitch)
		bridge := bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
		if len(ovs.Devices) != 1 || ovs.Devices[0].Provider != string(bridge) || ovs.Provider == "" || ovs.Root != rootID ||
			!slices.Equal(ovs.Devices[0].PhysicalNetworks, []string{"physnet0"}) || ovs.Devices[0].PCISlots != nil ||
			!slices.Equal(ovs.VNICTypes, []string{"normal"}) {
			t.Errorf("the Open vSwitch agent: %+v", ovs)
		}
		if len(nic.Devices) != 2 || nic.Devices[0].Name != "ens1f0" || len(nic.Devices[0].PCISlots) == 0 ||
			nic.Devices[1].Provider != "" {
			t.Errorf("the SR-IOV agent: %+v", nic)
		}
		must(t, stop())
	})
	scenario(t, "none to Neutron", func(t *testing.T, w *testHost) {
		agents := &networkAgents{fail: fault.New(fault.NotFound, "no such request")}
		w.options.Network = agents
		w.withBandwidth(map[string]int{"br-ex": 1000})
		_, stop := w.startReported()
		time.Sleep(noHeartbeats - time.Minute)
		if n := agents.count(); n != 1 {
			t.Errorf("%d requests", n)
		}
		must(t, stop())
	})
	scenario(t, "without report_bandwidth they are not about Placement", func(t *testing.T, w *testHost) {
		agents := &networkAgents{}
		w.options.Network = agents
		w.withBandwidth(map[string]int{"br-ex": 1000})
		w.options.ReportBandwidth = false
		_, stop := w.startReported()
		time.Sleep(3 * heartbeatInterval)
		if ovs := agents.last(bandwidth.OpenVSwitch); len(ovs.Devices) != 1 || ovs.Synced != nil || agents.count() < 6 {
			t.Errorf("%d requests, the last %+v", agents.count(), ovs)
		}
		must(t, stop())
	})
	scenario(t, "again after a failure", func(t *testing.T, w *testHost) {
		agents := &networkAgents{fail: fault.New(fault.Unavailable, "down")}
		w.options.Network = agents
		w.withBandwidth(map[string]int{"br-ex": 1000})
		_, stop := w.startReported()
		time.Sleep(heartbeatPoll) // nothing changes any more
		w.until("a refused request", func() bool { return agents.count() > 0 })
		agents.mu.Lock()
		agents.fail, agents.types, agents.reports = nil, nil, nil
		agents.mu.Unlock()
		time.Sleep(2 * heartbeatRetry)
		if agents.last(bandwidth.OpenVSwitch).Binary == "" || agents.last(bandwidth.NICSwitch).Binary == "" {
			t.Error("the agents have not reported again")
		}
		must(t, stop())
	})
}
