package app

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// policyLab changes the policy of a port before a call that compute makes to the network service.
type policyLab struct {
	*movesLab
	service *faultyNetwork

	policies []any // ids; nil: none
	kbps     []int // of the policies
	now      int   // the index of the policy that the port has

	calls   int   // of the last operation
	changed error // of the last change
}

func newPolicyLab(t *testing.T) *policyLab {
	t.Helper()
	service := &faultyNetwork{}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	base := newPortsLabWith(t, "\n[neutron]\nendpoint_override = "+server.URL+"\n", service)
	l := &policyLab{movesLab: &movesLab{portsLab: base, stop: map[string]func(){}}, service: service}
	t.Cleanup(l.down)
	l.policies, l.kbps = []any{nil}, []int{0}
	for _, kbps := range []int{2000, 5000, 4000} {
		l.policies, l.kbps = append(l.policies, l.policy(kbps)), append(l.kbps, kbps)
	}
	l.own = l.port(l.policies[1].(string))
	l.now = 1
	l.start("cmp2")
	return l
}

// during performs an operation, and changes the policy before a call of compute to the network service.
func (l *policyLab) during(call int, operation func()) {
	l.t.Helper()
	next, done := (l.now+1)%len(l.policies), make(chan struct{})
	l.changed = nil
	l.service.mu.Lock()
	l.service.calls = 0
	l.service.before = func(n int) {
		if n != call {
			return
		}
		defer close(done)
		_, l.changed = l.cloud.NetworkClient().UpdatePort(l.t.Context(), l.own.ID,
			map[string]any{"qos_policy_id": l.policies[next]})
	}
	l.service.mu.Unlock()
	operation()
	l.service.mu.Lock()
	l.calls, l.service.before = l.service.calls, nil
	l.service.mu.Unlock()
	if l.calls < call {
		return
	}
	<-done
	switch {
	case l.changed == nil:
		l.now = next
	case !fault.Is(l.changed, fault.Conflict):
		l.t.Errorf("call %d: the change of the policy is refused with %v, want 409", call, l.changed)
	}
}

// has waits until the port is bound to a host and has what its policy says, in its profile and in Placement.
func (l *policyLab) has(what, host string) {
	l.t.Helper()
	var port network.Port
	var held int
	ok := false
	defer func() {
		if !ok {
			l.t.Logf("%s: %d kbit/s expected on %s; Placement has %d; change: %v; port %+v", what, l.kbps[l.now], host, held,
				l.changed, port)
		}
	}()
	l.until("the port has its guarantee", func() bool {
		var err error
		port, err = l.cloud.NetworkClient().Port(l.t.Context(), l.own.ID)
		held = l.allocation(l.server.ID)[bridgeOf(host)][bandwidth.EgressBandwidth]
		allocated := 0
		for _, at := range port.Allocation() {
			if at == string(bridgeOf(host)) {
				allocated++
			}
		}
		policy, _ := l.policies[l.now].(string)
		ok = err == nil && port.Host == host && port.Policy == policy && held == l.kbps[l.now] &&
			allocated == min(l.kbps[l.now], 1) && len(port.Allocation()) == allocated
		return ok
	})
}

// TestPolicyChangesBeforeEachCall changes the policy of a port before each call that compute makes to the network
// service while it creates, migrates, reverts and live-migrates a server, and attaches the port. The change is made, in
// the port and in Placement, or refused with 409.
func TestPolicyChangesBeforeEachCall(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPolicyLab(t)
	create := func(networks any) { l.server = l.create("ACTIVE", networks) }
	withPort := []map[string]string{{"port": l.own.ID}}
	operations := []struct {
		name, host               string
		before, operation, after func()
	}{
		{"create", "cmp1", func() { l.disable("cmp2") }, func() { create(withPort) }, func() {
			l.enable("cmp2")
			l.delete(l.server.ID)
		}},
		{"migrate", "cmp2", func() { create(withPort); l.goTo("cmp1") },
			func() { l.do("migrate", "VERIFY_RESIZE", "cmp2", map[string]any{"host": "cmp2"}) },
			func() { l.do("confirmResize", "ACTIVE", "cmp2", nil); l.delete(l.server.ID) }},
		{"revert", "cmp1", func() {
			create(withPort)
			l.goTo("cmp1")
			l.do("migrate", "VERIFY_RESIZE", "cmp2", map[string]any{"host": "cmp2"})
		}, func() { l.do("revertResize", "ACTIVE", "cmp1", nil) }, func() { l.delete(l.server.ID) }},
		{"live", "cmp2", func() { create(withPort); l.goTo("cmp1") },
			func() {
				l.do("os-migrateLive", "ACTIVE", "cmp2", map[string]any{"host": "cmp2", "block_migration": "auto"})
			},
			func() { l.delete(l.server.ID) }},
		{"attach", "cmp1", func() { create("none"); l.goTo("cmp1") }, func() {
			if _, err := l.attach(l.server.ID, map[string]any{"port_id": l.own.ID}); err != nil {
				t.Error(err)
			}
		}, func() { l.detach(l.server.ID, l.own.ID); l.delete(l.server.ID) }},
	}
	for _, o := range operations {
		for call := 1; ; call++ {
			o.before()
			l.during(call, o.operation)
			l.has(fmt.Sprintf("%s, before call %d", o.name, call), o.host)
			o.after()
			if l.calls < call {
				t.Logf("%s: %d calls", o.name, l.calls)
				break
			}
		}
	}
}

// goTo brings a new server to a host.
func (l *policyLab) goTo(host string) {
	l.t.Helper()
	s, err := l.compute().Server(l.t.Context(), l.server.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	if s.Host != nil && *s.Host != host {
		l.do("migrate", "VERIFY_RESIZE", host, map[string]any{"host": host})
		l.do("confirmResize", "ACTIVE", host, nil)
		l.until("the guest on the former host is gone", func() bool { // until then it is not placed there again
			why, err := l.compute().Why(l.t.Context(), l.server.ID)
			return err == nil && len(why.Leftovers) == 0
		})
	}
}

// enable lets new servers go to a host.
func (l *policyLab) enable(host string) {
	l.t.Helper()
	services, err := l.compute().Services(l.t.Context())
	for _, service := range services {
		if err == nil && service.Host == host {
			err = l.compute().SetServiceStatus(l.t.Context(), service, true, "")
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
}
