package app

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// directMoves is a movesLab whose server on cmp1 has a port on a VF with a guarantee. Each host has two NICs with four
// VFs.
type directMoves struct {
	*movesLab
}

func newDirectMoves(t *testing.T, conf string, faulty *faultyNetwork, hosts ...string) *directMoves {
	t.Helper()
	nics := newNICsLab(t, conf, faulty)
	l := &directMoves{&movesLab{portsLab: nics.portsLab, stop: map[string]func(){}, more: nicsConf}}
	t.Cleanup(l.down)
	l.own = nics.directPort(guarantee)
	l.server = l.create("ACTIVE", []map[string]string{{"port": l.own.ID}}) // on the only host so far
	for _, host := range hosts {
		l.start(host)
		l.until("the VFs of "+host, func() bool {
			agents, err := l.cloud.NetworkClient().Agents(t.Context(), map[string][]string{"host": {host},
				"agent_type": {string(bandwidth.NICSwitch)}})
			ready := err == nil && len(agents) == 1
			for pf, nic := range map[string]string{"_0000:11:00.0": "ens1", "_0000:21:00.0": "ens2"} {
				p := l.pf(host + pf)
				below := bandwidth.Name{Hypervisor: host, Agent: bandwidth.NICSwitch, Device: nic}.ID()
				ready = ready && p.Inventories[pci.PortVF].Total == 4 && p.Parent == below
			}
			return ready
		})
	}
	return l
}

// pf returns the provider of a PF of any host; a zero one if there is none.
func (l *directMoves) pf(name string) (p provider.Provider) {
	found, err := l.cloud.PlacementClient().ProviderByName(l.t.Context(), name)
	if err == nil {
		p, _ = l.tree(found.Root).ByID(found.ID)
	}
	return p
}

func (l *directMoves) tree(root provider.ID) provider.Tree {
	tree, err := l.cloud.PlacementClient().Tree(l.t.Context(), root)
	if err != nil {
		return provider.Tree{}
	}
	return tree
}

// agreesOn waits until only a host has a VF, which is that of the port and of the guest, and its guarantee.
func (l *directMoves) agreesOn(host string) {
	l.t.Helper()
	l.until("port, guest and allocation agree on "+host, func() bool {
		p, err := l.cloud.NetworkClient().Port(l.t.Context(), l.own.ID)
		devices, listErr := l.cloud.HostClient().Devices(l.t.Context())
		if err != nil || listErr != nil {
			return false
		}
		vf, _ := p.Profile["pci_slot"].(string)
		for _, d := range devices {
			if (d.Holder != "") != (d.Host == host && d.Address == vf) {
				return false
			}
		}
		held := l.allocation(l.server.ID)
		pf := l.pf(host + "_" + strings.TrimRight(vf, "1234") + "0")
		return vf != "" && p.Host == host && p.VIF == "hw_veb" && held[pf.ID][pci.PortVF] == 1 &&
			held[pf.Parent][bandwidth.EgressBandwidth] == guarantee && len(l.bindings()) == 1
	})
}

// duringMigration migrates the server live and returns the bindings of its port when the guest leaves: status, host and
// whether the profile has a VF.
func (l *directMoves) duringMigration(to, arrives string) (during []string) {
	l.t.Helper()
	seen := make(chan []string, 8)
	l.mu.Lock()
	l.observe = func(_, operation string) {
		if operation != "migrate" {
			return
		}
		var list []string
		all, err := l.cloud.NetworkClient().PortBindings(l.t.Context(), l.own.ID)
		for _, b := range all {
			list = append(list, fmt.Sprintf("%s %s %s %t", b.Status, b.Host, b.VIF, b.Profile["pci_slot"] != nil))
		}
		seen <- append(list, fmt.Sprint(err))
	}
	l.mu.Unlock()
	l.do("os-migrateLive", "ACTIVE", arrives, map[string]any{"host": to, "block_migration": "auto"})
	l.agreesOn(arrives)
	l.mu.Lock()
	l.observe = nil
	l.mu.Unlock()
	return <-seen
}

// TestLiveMigrationWithDirectPort migrates a server with a VF and a guarantee live. When the guest leaves, the port has
// an inactive binding with the VF of the destination; afterwards only that. A source that refuses to migrate the guest
// keeps it.
func TestLiveMigrationWithDirectPort(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newDirectMoves(t, "", &faultyNetwork{}, "cmp2", "cmp3")
	l.do("os-migrateLive", "ACTIVE", "cmp2", map[string]any{"host": "cmp2", "block_migration": "auto"})
	l.agreesOn("cmp2")
	both := []string{"ACTIVE cmp2 hw_veb true", "INACTIVE cmp3 hw_veb true", "<nil>"}
	l.fail("migrate", "cmp2")
	if got := l.duringMigration("cmp3", "cmp2"); !slices.Equal(got, both) {
		t.Errorf("during the refused migration: %q", got)
	}
	l.fail("")
	if got := l.duringMigration("cmp3", "cmp3"); !slices.Equal(got, both) {
		t.Errorf("during the migration: %q", got)
	}
	l.delete(l.server.ID)
	l.until("no VF is held", func() bool { return len((&nicsLab{portsLab: l.portsLab}).held("")) == 0 })
}

// TestFaultAtEachCallOfALiveMigrationWithDirectPort lets each call of the network service fail once during a live
// migration.
func TestFaultAtEachCallOfALiveMigrationWithDirectPort(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	faulty := &faultyNetwork{}
	service := httptest.NewServer(faulty)
	defer service.Close()
	l := newDirectMoves(t, "\n[neutron]\nendpoint_override = "+service.URL+"\n", faulty, "cmp2")
	here, there := "cmp1", "cmp2"
	for _, lost := range []bool{false, true} {
		for n := 1; ; n++ {
			faulty.begin(n, lost)
			l.do("os-migrateLive", "ACTIVE", there, map[string]any{"host": there, "block_migration": "auto"})
			l.agreesOn(there)
			here, there = there, here
			if !faulty.failed() {
				t.Logf("%d calls", n-1)
				break
			}
		}
	}
	l.delete(l.server.ID)
}

// TestHypervisorRefusesDirectPorts attaches a port with a VF to a server whose hypervisor cannot attach it, and
// detaches one that it cannot detach: the request ends with the reason, and everything is as before (row N9).
func TestHypervisorRefusesDirectPorts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newDirectMoves(t, "", &faultyNetwork{}, "cmp2")
	nics := &nicsLab{portsLab: l.portsLab, direct: l.own.Network}
	l.do("os-migrateLive", "ACTIVE", "cmp2", map[string]any{"host": "cmp2", "block_migration": "auto"})
	l.agreesOn("cmp2")
	before := l.allocation(l.server.ID)
	l.fail("build", "cmp2")
	more := nics.directPort(1000)
	if _, err := l.attach(l.server.ID, map[string]any{"port_id": more.ID}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "refuses to build") {
		t.Errorf("attached: %v", err)
	}
	p, err := l.cloud.NetworkClient().Port(t.Context(), more.ID)
	if err != nil || p.Device != "" || p.Host != "" || len(p.Profile) > 0 || !l.allocation(l.server.ID).Equal(before) {
		t.Errorf("%+v %v, allocation %v, before %v", p, err, l.allocation(l.server.ID), before)
	}
	l.agreesOn("cmp2")

	l.detach(l.server.ID, l.own.ID)
	l.until("the refusal", func() bool {
		why, err := l.compute().Why(t.Context(), l.server.ID)
		return err == nil && strings.Contains(why.Fault, "cannot be detached on cmp2")
	})
	l.agreesOn("cmp2")
	l.fail("")
	l.delete(l.server.ID)
}
