package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// numaFlavor makes servers of the lab have one NUMA cell, and these extra specs.
func (l *nicsLab) numaFlavor(name string, specs map[string]string) {
	l.t.Helper()
	f, err := l.compute().CreateFlavor(l.t.Context(), compute.CreateFlavor{Name: name, VCPUs: 1, RAM: 64, Disk: 1})
	if err == nil {
		specs["hw:numa_nodes"] = "1"
		err = l.compute().SetExtraSpecs(l.t.Context(), f.ID, specs)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.flavor = f.ID
}

// policyPort creates a port with a VF, a guarantee and a NUMA policy; empty: that of the flavor.
func (l *nicsLab) policyPort(kbps int, policy string) (id string) {
	l.t.Helper()
	attributes := map[string]any{"network_id": l.direct, "project_id": "admin", "binding:vnic_type": "direct",
		"qos_policy_id": l.policy(kbps)}
	if policy != "" {
		attributes["numa_affinity_policy"] = policy
	}
	p, err := l.cloud.NetworkClient().CreatePort(l.t.Context(), attributes)
	if err != nil {
		l.t.Fatal(err)
	}
	return p.ID
}

// nicOf returns the bus of the VF that a port is bound with. Bus 11 is on node 0 of the sample machine, and bus 21 on
// node 1, which is another socket.
func (l *nicsLab) nicOf(port string) string {
	l.t.Helper()
	p, err := l.cloud.NetworkClient().Port(l.t.Context(), port)
	slot, _ := p.Profile["pci_slot"].(string)
	if err != nil || p.VIF != "hw_veb" || len(slot) < 7 {
		l.t.Fatalf("%+v %v", p, err)
	}
	return slot[5:7]
}

// TestNUMAPolicyOfPorts creates servers with ports on NICs of two NUMA nodes, and attaches ports to a server that is
// placed on one of them: the VF of each is where the policy of the port permits it. It counts, not that of the flavor.
func TestNUMAPolicyOfPorts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer l.down()
	pair := func(policy string) []map[string]string {
		return []map[string]string{{"port": l.policyPort(6000, policy)}, {"port": l.policyPort(6000, policy)}}
	}
	l.numaFlavor("near", map[string]string{"hw:pci_numa_affinity_policy": "required"})
	for policy, why := range map[string]string{"": "numa_policy required", "required": "numa_policy required",
		"socket": "numa_policy socket", "legacy": "numa_policy legacy"} {
		failed := l.create("ERROR", pair(policy)) // one NIC has no room for both
		if failed.Fault == nil || !strings.Contains(failed.Fault.Message, why) {
			t.Errorf("%q: %+v", policy, failed.Fault)
		}
		l.delete(failed.ID)
	}
	ports := pair("preferred")
	both := l.create("ACTIVE", ports)
	if a, b := l.nicOf(ports[0]["port"]), l.nicOf(ports[1]["port"]); a == b {
		t.Errorf("both ports are on NIC %s", a)
	}
	l.delete(both.ID)
	l.until("no VF is held", func() bool { return len(l.held("")) == 0 })

	l.numaFlavor("far", map[string]string{"hw:pci_numa_affinity_policy": "preferred"})
	first := l.policyPort(6000, "required")
	s := l.create("ACTIVE", []map[string]string{{"port": first}}) // its guest is on the node of this NIC
	near := l.nicOf(first)
	for _, policy := range []string{"required", "legacy", "socket"} {
		before := l.allocation(s.ID)
		_, err := l.attach(s.ID, map[string]any{"port_id": l.policyPort(6000, policy)})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "numa_policy "+policy) ||
			!l.allocation(s.ID).Equal(before) {
			t.Errorf("%s: %v, allocation %v, before %v", policy, err, l.allocation(s.ID), before)
		}
	}
	for _, c := range []struct {
		kbps   int
		policy string
		near   bool
	}{{1000, "required", true}, {1000, "preferred", true}, {6000, "", false}} { // the other NIC is idle
		port := l.policyPort(c.kbps, c.policy)
		if _, err := l.attach(s.ID, map[string]any{"port_id": port}); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if on := l.nicOf(port); (on == near) != c.near {
			t.Errorf("%+v: the port is on NIC %s, the guest near %s", c, on, near)
		}
		l.until("the change of the port has ended", func() bool {
			why, err := l.compute().Why(t.Context(), s.ID)
			return err == nil && strings.HasPrefix(why.History[len(why.History)-1].Text, "attached port "+port)
		})
	}
}
