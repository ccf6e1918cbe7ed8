package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// TestHostWithoutNetworkAgent creates a network and a server on a host whose configuration has no [ovs]: the server
// fails, and the reason names the option. With a bridge of any physical network, and no bandwidth, the next server gets
// its port, and Placement has no inventory of bandwidth. Without [berth] report_bandwidth the agent binds ports too.
func TestHostWithoutNetworkAgent(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := &portsLab{lab: newLab(t)}
	l.up("")
	n, err := l.cloud.NetworkClient().CreateNetwork(t.Context(), map[string]any{"name": "lan", "project_id": "admin"})
	if err == nil {
		_, err = l.cloud.NetworkClient().CreateSubnet(t.Context(), map[string]any{"network_id": n.ID, "ip_version": 4,
			"cidr": "10.0.0.0/24", "project_id": "admin"})
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.flavor = f.ID
	failed := l.create("ERROR", "auto")
	if failed.Fault == nil || !strings.Contains(failed.Fault.Message, "or [ovs] bridge_mappings") {
		t.Errorf("%+v", failed.Fault)
	}
	l.down()
	for _, report := range []string{"false", "true"} {
		l.up("[ovs]\nbridge_mappings = physnet0:br-ex\n[berth]\nreport_bandwidth = " + report + "\n")
		l.until("the agent is alive", func() bool {
			agents, err := l.cloud.NetworkClient().Agents(t.Context(), nil)
			return err == nil && len(agents) == 1 && agents[0].Alive && (report == "true") == (agents[0].Synced != nil)
		})
		s := l.create("ACTIVE", "auto")
		ports := l.ports(s.ID)
		if len(ports) != 1 || ports[0].Host != "cmp1" || ports[0].VIF != "ovs" || len(l.allocation(s.ID)) != 1 {
			t.Errorf("report_bandwidth = %s: %+v %v", report, ports, l.allocation(s.ID))
		}
		l.delete(s.ID)
		l.down()
	}
}
