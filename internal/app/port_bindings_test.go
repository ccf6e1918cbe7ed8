package app

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// bindings returns the bindings of the user's port, such as "ACTIVE cmp1 ovs true": status, host, vif_type, and whether
// its allocation is on the bridge of this host.
func (l *movesLab) bindings() (list []string) {
	all, err := l.cloud.NetworkClient().PortBindings(l.t.Context(), l.own.ID)
	if err != nil {
		return []string{err.Error()}
	}
	for _, b := range all {
		at, _ := b.Profile["allocation"].(map[string]any)
		here := len(at) == 1
		for _, p := range at {
			here = here && p == string(bridgeOf(b.Host))
		}
		list = append(list, fmt.Sprintf("%s %s %s %t", b.Status, b.Host, b.VIF, here))
	}
	return list
}

// live migrates the server from a host that is not cmp1, and returns the bindings of its port when the migration
// begins.
func (l *movesLab) live(to, arrives string) (during []string) {
	l.t.Helper()
	seen := make(chan []string, 8)
	l.mu.Lock()
	l.observe = func(_, operation string) {
		if operation == "migrate" {
			seen <- l.bindings()
		}
	}
	l.mu.Unlock()
	l.do("os-migrateLive", "ACTIVE", arrives, map[string]any{"host": to, "block_migration": "auto"})
	l.agrees(arrives)
	l.mu.Lock()
	l.observe = nil
	l.mu.Unlock()
	return <-seen
}

// TestBindingsOfALiveMigration migrates a server live: its port has an inactive binding at the destination meanwhile,
// and only that of the host with the guest afterwards, also if the source refuses to migrate it.
func TestBindingsOfALiveMigration(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newMovesLab(t, "cmp2", "cmp3")
	l.do("os-migrateLive", "ACTIVE", "cmp2", map[string]any{"host": "cmp2", "block_migration": "auto"})
	l.agrees("cmp2")
	both := []string{"ACTIVE cmp2 ovs true", "INACTIVE cmp3 ovs true"}
	l.fail("migrate", "cmp2")
	if got := l.live("cmp3", "cmp2"); !slices.Equal(got, both) {
		t.Errorf("during the refused migration: %q", got)
	}
	if got := l.bindings(); !slices.Equal(got, both[:1]) {
		t.Errorf("after the refused migration: %q", got)
	}
	l.fail("")
	if got := l.live("cmp3", "cmp3"); !slices.Equal(got, both) {
		t.Errorf("during the migration: %q", got)
	}
	l.until("only the binding of the destination is left", func() bool {
		return slices.Equal(l.bindings(), []string{"ACTIVE cmp3 ovs true"})
	})
	l.delete(l.server.ID)
}

// TestLiveMigrationWithOneBinding migrates a server live with a network service that has one binding for each port.
func TestLiveMigrationWithOneBinding(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	faulty := &faultyNetwork{oneBinding: true}
	service := httptest.NewServer(faulty)
	defer service.Close()
	l := newMovesLabOn(newPortsLabWith(t, "\n[neutron]\nendpoint_override = "+service.URL+"\n", faulty), "cmp2")
	l.do("os-migrateLive", "ACTIVE", "cmp2", map[string]any{"host": "cmp2", "block_migration": "auto"})
	l.agrees("cmp2")
	if got := l.bindings(); !slices.Equal(got, []string{"ACTIVE cmp2 ovs true"}) {
		t.Errorf("%q", got)
	}
	l.delete(l.server.ID)
}

// TestFaultAtEachCallOfALiveMigration lets each call of the network service fail once during a live migration. The
// ports follow the server, and have one binding afterwards.
func TestFaultAtEachCallOfALiveMigration(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	faulty := &faultyNetwork{}
	service := httptest.NewServer(faulty)
	defer service.Close()
	l := newMovesLabOn(newPortsLabWith(t, "\n[neutron]\nendpoint_override = "+service.URL+"\n", faulty), "cmp2")
	here, there := "cmp1", "cmp2"
	for _, lost := range []bool{false, true} {
		for n := 1; ; n++ {
			faulty.begin(n, lost)
			l.do("os-migrateLive", "ACTIVE", there, map[string]any{"host": there, "block_migration": "auto"})
			l.agrees(there)
			l.until(fmt.Sprintf("one binding is left after a fault of call %d", n), func() bool {
				return slices.Equal(l.bindings(), []string{"ACTIVE " + there + " ovs true"})
			})
			here, there = there, here
			if !faulty.failed() {
				t.Logf("%d calls", n-1)
				break
			}
		}
	}
	l.delete(l.server.ID)
}
