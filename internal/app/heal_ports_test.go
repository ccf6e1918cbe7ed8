package app

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// refusingNetwork is a network service for compute that refuses some requests, with 409.
type refusingNetwork struct {
	lab *portsLab

	mu     sync.Mutex
	refuse func(r *http.Request) bool // nil: none
}

func (n *refusingNetwork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	refused := n.refuse != nil && n.refuse(r)
	n.mu.Unlock()
	if refused {
		http.Error(w, `{"NeutronError":{"type":"Conflict","message":"refused by the test","detail":""}}`, http.StatusConflict)
		return
	}
	n.lab.cloud.Network.Handler.ServeHTTP(w, r)
}

// set sets the requests to refuse.
func (n *refusingNetwork) set(refuse func(r *http.Request) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = refuse
}

// healLab has two servers with a port each; their ports get a guarantee while they are bound.
type healLab struct {
	*portsLab
	network *refusingNetwork
}

func newHealLab(t *testing.T) healLab {
	t.Helper()
	l := healLab{network: &refusingNetwork{}}
	service := httptest.NewServer(l.network)
	t.Cleanup(service.Close)
	faulty := &faultyNetwork{}
	l.portsLab = newPortsLabWith(t, "\n[neutron]\nendpoint_override = "+service.URL+"\n", faulty)
	l.network.lab = l.portsLab
	return l
}

// heal heals one server, or shows what would be done, and returns its result; none: nothing needs healing.
func (l healLab) heal(server string, apply bool) host.HealedServer {
	l.t.Helper()
	got, err := l.cloud.HostClient().HealPorts(l.t.Context(), host.HealPorts{Servers: []string{server}, Apply: apply})
	if err != nil || len(got.Servers) > 1 {
		l.t.Fatalf("%+v %v", got, err)
	}
	if len(got.Servers) == 0 {
		return host.HealedServer{}
	}
	return got.Servers[0]
}

// guarantee gives each bound port of a server a policy in kilobits per second, without an allocation: as Neutron
// leaves ports that had no guarantee before.
func (l healLab) guarantee(server string, kbps int) {
	l.t.Helper()
	policy := l.policy(kbps)
	for _, p := range l.ports(server) {
		_, err := l.cloud.NetworkClient().UpdatePort(l.t.Context(), p.ID, map[string]any{"qos_policy_id": policy})
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.stripPorts(server)
	l.setEgress(server, 0)
}

// stripPorts removes the allocation from the profiles of a server's ports.
func (l healLab) stripPorts(server string) {
	l.t.Helper()
	for _, p := range l.ports(server) {
		rest := maps.Clone(p.Profile)
		delete(rest, "allocation")
		_, err := l.cloud.NetworkClient().UpdatePort(l.t.Context(), p.ID, map[string]any{"binding:profile": rest})
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// setEgress sets what a server has of the bridge in Placement.
func (l healLab) setEgress(server string, kbps int) {
	l.t.Helper()
	placement, consumer := l.cloud.PlacementClient(), resource.ConsumerID(server)
	held, err := placement.Allocation(l.t.Context(), consumer)
	if err != nil {
		l.t.Fatal(err)
	}
	held.Allocation = resource.Allocation{l.root: held.Allocation[l.root], l.bridge: {bandwidth.EgressBandwidth: kbps}}
	if held.Mappings = nil; kbps == 0 {
		delete(held.Allocation, l.bridge)
	}
	if err := placement.PutAllocation(l.t.Context(), consumer, held); err != nil {
		l.t.Fatal(err)
	}
}

// plain creates a server with n ports without a guarantee.
func (l healLab) plain(n int) compute.Server {
	l.t.Helper()
	var list []map[string]string
	for range n {
		list = append(list, map[string]string{"uuid": l.net.ID})
	}
	s := l.create("ACTIVE", list)
	l.check(s.ID, n, 0)
	return s
}

// state checks the state of a result, and a part of its reason.
func (l healLab) state(step string, got host.HealedServer, state, reason string) {
	l.t.Helper()
	if got.State != state || !strings.Contains(got.Reason, reason) {
		l.t.Errorf("%s: %+v", step, got)
	}
}

// TestHealPorts gives ports of a running server guarantees, and heals it (rows E1 to E3 and E10 to E14): a plan changes
// nothing, a refused change is undone, a healed server needs nothing, and its ports move and end as all others do.
func TestHealPorts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newHealLab(t)
	defer l.down()
	s := l.plain(2)
	l.state("without a guarantee", l.heal(s.ID, true), "", "")
	l.guarantee(s.ID, 3000)
	plan := l.heal(s.ID, false)
	l.state("plan", plan, host.PortsNeedHealing, "")
	if len(plan.Ports) != 2 || plan.Adds[string(l.bridge)][string(bandwidth.EgressBandwidth)] != 6000 {
		t.Errorf("%+v", plan)
	}
	l.check(s.ID, 2, 0)
	list := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "ports")
	}
	l.network.set(list)
	l.state("ports are not listed", l.heal(s.ID, true), host.PortsNotRead, "refused by the test")
	puts := 0
	second := func(r *http.Request) bool {
		if r.Method == http.MethodPut {
			puts++
		}
		return r.Method == http.MethodPut && puts == 2
	}
	l.network.set(second)
	l.state("the second port is refused", l.heal(s.ID, true), host.PortsNotWritten, "refused by the test")
	l.network.set(nil)
	l.check(s.ID, 2, 0)
	puts = 0
	l.network.set(func(r *http.Request) bool { return r.Method == http.MethodPut && !second(r) && puts > 2 || puts == 2 })
	l.state("the first port is not restored", l.heal(s.ID, true), host.PortsNotRestored, "keep a binding:profile")
	l.network.set(nil)

	l.state("apply", l.heal(s.ID, true), host.PortsHealed, "")
	l.check(s.ID, 2, 6000)
	l.state("healed", l.heal(s.ID, true), "", "")
	l.act(s.ID, "shelve", "SHELVED_OFFLOADED", nil)
	l.state("shelved", l.heal(s.ID, true), "", "")
	l.act(s.ID, "unshelve", "ACTIVE", nil)
	l.check(s.ID, 2, 6000)
	l.delete(s.ID)
	l.until("the ports are released", func() bool { return len(l.ports(s.ID)) == 0 })
}

// TestHealPortsOfRestoredDatabases removes what Placement or the ports have of a guarantee, in turn, and adds an
// amount that belongs to no port: each time healing restores both. An amount without room changes nothing
// (row E14).
func TestHealPortsOfRestoredDatabases(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newHealLab(t)
	defer l.down()
	own := l.port(l.policy(6000))
	s := l.create("ACTIVE", []map[string]string{{"port": own.ID}})
	l.check(s.ID, 1, 6000)
	for _, kbps := range []int{0, 100, 9000} {
		l.setEgress(s.ID, kbps)
		l.state("plan", l.heal(s.ID, false), host.PortsNeedHealing, "")
		l.state("apply", l.heal(s.ID, true), host.PortsHealed, "")
		l.check(s.ID, 1, 6000)
	}
	l.stripPorts(s.ID)
	// Placement has 6 of 10 Mbit/s; the port gets them back, not another 6.
	l.state("a port without allocation", l.heal(s.ID, true), host.PortsHealed, "")
	l.check(s.ID, 1, 6000)

	l.setEgress(s.ID, 1000)
	other := l.plain(1)
	l.guarantee(other.ID, 5000)
	l.state("repair the first", l.heal(s.ID, true), host.PortsHealed, "")
	l.state("no room", l.heal(other.ID, true), host.PortsNotAllocated, "has room for what the port requests")
	if p := l.ports(other.ID)[0]; len(p.Allocation()) > 0 || l.guaranteed(other.ID) > 0 {
		t.Errorf("%+v", p)
	}
	client := l.cloud.HostClient()
	all, err := client.HealPorts(t.Context(), host.HealPorts{Host: "cmp1"})
	if err != nil || len(all.Servers) != 1 || all.Servers[0].Server != other.ID {
		t.Errorf("%+v %v", all, err)
	}
	if all, err = client.HealPorts(t.Context(), host.HealPorts{}); err != nil || len(all.Servers) != 1 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err = client.HealPorts(t.Context(), host.HealPorts{Host: "cmp9"}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// TestHealServerWithoutAllocation removes the whole allocation of a server with a port that has a guarantee. Healing
// the host restores what the guest has, healing ports what the port has, in any order.
func TestHealServerWithoutAllocation(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newHealLab(t)
	defer l.down()
	own := l.port(l.policy(6000))
	s := l.create("ACTIVE", []map[string]string{{"port": own.ID}})
	l.check(s.ID, 1, 6000)
	before := l.allocation(s.ID)
	ofPorts := func() {
		t.Helper()
		l.state("ports", l.heal(s.ID, true), host.PortsHealed, "")
		if got := l.guaranteed(s.ID); got != 6000 {
			t.Errorf("bandwidth %d", got)
		}
	}
	ofHost := func() {
		t.Helper()
		found, err := l.cloud.HostClient().Heal(t.Context(), "cmp1", host.Heal{})
		if err != nil || len(found.Missing) != 1 || !found.Missing[0].Healed {
			t.Errorf("%+v %v", found, err)
		}
	}
	for _, steps := range [][]func(){{ofPorts, ofHost}, {ofHost, ofPorts}} {
		if err := l.cloud.PlacementClient().DeleteAllocation(t.Context(), resource.ConsumerID(s.ID)); err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			step()
		}
		if now := l.allocation(s.ID); !now.Equal(before) {
			t.Errorf("%v, before %v", now, before)
		}
		l.state("healed", l.heal(s.ID, true), "", "")
	}
}
