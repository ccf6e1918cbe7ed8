package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
)

// movesLab is a portsLab with more hosts, each with a bridge of 10 Mbit/s on physnet0, and a server with a created port
// and a port that guarantees 4 Mbit/s.
type movesLab struct {
	*portsLab
	stop map[string]func() // of the hosts that run

	mu    sync.Mutex
	fails map[string]string // an operation of the hypervisor that fails, by host
	// called before each operation of the hypervisors of other hosts than cmp1; nil: not called
	observe func(host, operation string)
	server  compute.Server
	own     network.Port
	more    string // configuration of the hosts
}

const guarantee = 4000 // kilobits per second

func newMovesLab(t *testing.T, hosts ...string) *movesLab {
	t.Helper()
	return newMovesLabOn(newPortsLab(t), hosts...)
}

// newMovesLabOn is newMovesLab with a portsLab.
func newMovesLabOn(base *portsLab, hosts ...string) *movesLab {
	base.t.Helper()
	l, t := &movesLab{portsLab: base, stop: map[string]func(){}}, base.t
	t.Cleanup(l.down)
	l.own = l.port(l.policy(guarantee))
	l.server = l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}, {"port": l.own.ID}})
	for _, host := range hosts {
		l.start(host)
	}
	l.agrees("cmp1")
	return l
}

// start starts the agent of a host and waits until its bridge is reported.
func (l *movesLab) start(host string) {
	l.t.Helper()
	dir := filepath.Join(l.dir, host)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	file := filepath.Join(dir, "agent.conf")
	text := fmt.Sprintf("%s[DEFAULT]\nhost = %s\ncompute_driver = fake.FakeDriver\n"+
		"[oslo_concurrency]\nlock_path = %s\n[berth]\nrescan_interval = 1\n"+
		"sysfs = %s\n%s", portsConf, host, dir, filepath.Join(l.dir, "machine.txtar"), l.more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(l.t.Output(), nil))
	conf, err := settings.Read(log, file)
	conf.Times = settings.TestTimes()
	conf.RequestTime = testenv.Patience
	if err != nil {
		l.t.Fatal(err)
	}
	source, events, err := openFacts(conf)
	if err != nil {
		l.t.Fatal(err)
	}
	guests, err := fake.New(filepath.Join(dir, AgentDir, "guests"), conf.Capacity)
	if err != nil {
		l.t.Fatal(err)
	}
	guests.Images = imagecache.New(filepath.Join(dir, "images"), imageSource(l.cloud.endpoints().Images), log)
	guests.Fail = func(_ context.Context, operation, _ string) error { return l.fault(host, operation) }
	agent, err := newAgentOf(guests, conf, filepath.Join(dir, AgentDir), l.cloud.endpoints(), agentFacts{source, events},
		log)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	l.stop[host] = func() {
		cancel()
		<-ended
		delete(l.stop, host)
	}
	l.until(host+" is ready", func() bool {
		inv, err := l.cloud.PlacementClient().Inventories(l.t.Context(), bridgeOf(host))
		hosts, hostsErr := l.cloud.HostClient().Hosts(l.t.Context())
		agents, agentsErr := l.cloud.NetworkClient().Agents(l.t.Context(), map[string][]string{"host": {host}})
		connected := false
		for _, h := range hosts {
			connected = connected || h.Host == host && h.Connected
		}
		return err == nil && hostsErr == nil && agentsErr == nil && connected && len(agents) > 0 &&
			inv.Inventories[bandwidth.EgressBandwidth].Total == 10000
	})
}

// fail makes an operation of the hypervisors of hosts fail; no hosts: none fails.
func (l *movesLab) fail(operation string, hosts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = map[string]string{}
	for _, host := range hosts {
		l.fails[host] = operation
	}
}

// fault returns the fault of an operation of a host's hypervisor.
func (l *movesLab) fault(host, operation string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.observe != nil {
		l.observe(host, operation)
	}
	if l.fails[host] == operation {
		return fault.New(fault.Conflict, "the hypervisor of %s refuses to %s", host, operation)
	}
	return nil
}

// down stops the agents and the cloud.
func (l *movesLab) down() {
	for _, stop := range l.stop {
		stop()
	}
	l.portsLab.down()
}

func bridgeOf(host string) provider.ID {
	return bandwidth.Name{Hypervisor: host, Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
}

// used returns the bandwidth that is allocated on the bridges, by host; hosts without any are left out.
func (l *movesLab) used() map[string]int {
	l.t.Helper()
	out := map[string]int{}
	for _, host := range []string{"cmp1", "cmp2", "cmp3"} {
		used, err := l.cloud.PlacementClient().Usages(l.t.Context(), bridgeOf(host))
		if err == nil && used[bandwidth.EgressBandwidth] > 0 {
			out[host] = used[bandwidth.EgressBandwidth]
		}
	}
	return out
}

// agrees waits until the server's ports are bound to a host, the guarantee is allocated to the server on the host's
// bridge, and besides only on the bridges of others, for the migration.
func (l *movesLab) agrees(host string, others ...string) {
	l.t.Helper()
	var seen string
	ok := false
	defer func() {
		if !ok {
			l.t.Logf("%s expected, seen %s", host, seen)
		}
	}()
	l.until("ports and allocations agree on "+host, func() bool {
		want := map[string]int{host: guarantee}
		for _, other := range others {
			want[other] = guarantee
		}
		held, used, ports := l.allocation(l.server.ID), l.used(), l.ports(l.server.ID)
		ok = len(ports) == 2 && len(held) == 2 && fmt.Sprint(used) == fmt.Sprint(want) &&
			held[bridgeOf(host)][bandwidth.EgressBandwidth] == guarantee
		for _, p := range ports {
			at := []string{}
			for _, id := range p.Allocation() {
				at = append(at, id)
			}
			bridge := []string{string(bridgeOf(host))}
			ok = ok && p.Host == host && p.VIF == "ovs" && (p.ID == l.own.ID) == slices.Equal(at, bridge)
		}
		seen = fmt.Sprintf("%v %v %+v", held, used, ports)
		return ok
	})
}

// moved waits until the server has a status on a host.
func (l *movesLab) moved(status, host string) {
	l.t.Helper()
	defer func() {
		if l.t.Failed() {
			why, err := l.compute().Why(context.WithoutCancel(l.t.Context()), l.server.ID)
			for _, line := range why.History {
				l.t.Log(line.At, line.Text)
			}
			l.t.Log(err)
		}
	}()
	l.until(status+" on "+host, func() bool {
		s, err := l.compute().Server(l.t.Context(), l.server.ID)
		at := ""
		if err == nil && s.Host != nil {
			at = *s.Host
		}
		return err == nil && s.Status == status && s.TaskState == nil && at == host
	})
}

// do performs an action on the server, and waits for its status on a host.
func (l *movesLab) do(action, status, host string, args map[string]any) {
	l.t.Helper()
	if err := l.compute().Act(l.t.Context(), l.server.ID, action, args); err != nil {
		l.t.Fatalf("%s: %v", action, err)
	}
	l.moved(status, host)
}

// disable keeps new servers away from hosts.
func (l *movesLab) disable(hosts ...string) {
	l.t.Helper()
	services, err := l.compute().Services(l.t.Context())
	for _, service := range services {
		if err == nil && slices.Contains(hosts, service.Host) {
			err = l.compute().SetServiceStatus(l.t.Context(), service, false, "the server must not go there")
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestPortsFollowTheirServer moves a server with a guarantee in each way. During a move both hosts have the bandwidth;
// afterwards the ports are bound to the host of the guest, with its bridge in their profile, and only this bridge has
// the bandwidth (rows N20, N21, N25, N28, N34).
func TestPortsFollowTheirServer(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newMovesLab(t, "cmp2", "cmp3")
	l.do("migrate", "VERIFY_RESIZE", "cmp2", map[string]any{"host": "cmp2"})
	l.agrees("cmp2", "cmp1")
	l.do("confirmResize", "ACTIVE", "cmp2", nil)
	l.agrees("cmp2")

	l.do("migrate", "VERIFY_RESIZE", "cmp3", map[string]any{"host": "cmp3"})
	l.agrees("cmp3", "cmp2")
	l.do("revertResize", "ACTIVE", "cmp2", nil)
	l.agrees("cmp2")

	l.do("os-migrateLive", "ACTIVE", "cmp3", map[string]any{"host": "cmp3", "block_migration": "auto"})
	l.agrees("cmp3")

	l.stop["cmp3"]()
	if err := l.compute().HostDown(t.Context(), "cmp3", true); err != nil {
		t.Fatal(err)
	}
	l.do("evacuate", "ACTIVE", "cmp2", map[string]any{"host": "cmp2"})
	l.agrees("cmp2") // nothing stays allocated on a host that is declared dead
	l.start("cmp3")
	if err := l.compute().HostDown(t.Context(), "cmp3", false); err != nil {
		t.Fatal(err)
	}
	l.agrees("cmp2")

	l.do("shelve", "SHELVED_OFFLOADED", "", nil)
	if used := l.used(); len(used) > 0 {
		t.Errorf("a shelved server has bandwidth on %v", used)
	}
	l.disable("cmp1", "cmp2")
	l.do("unshelve", "ACTIVE", "cmp3", nil)
	l.agrees("cmp3")
	l.delete(l.server.ID)
	l.until("the port of the user is free", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), l.own.ID)
		return err == nil && p.Device == "" && p.Host == "" && len(p.Profile) == 0 && len(l.used()) == 0 &&
			len(l.ports(l.server.ID)) == 0
	})
}

// TestPortsOfFailedMoves moves a server to hosts whose hypervisors refuse to build its guest: it stays, or takes the
// next host, and hosts that have failed hold nothing. So it does after a live migration that the source refuses. A
// shelved server that no host can build stays shelved (rows N22, N23, N30, N35).
func TestPortsOfFailedMoves(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newMovesLab(t, "cmp2", "cmp3")
	l.fail("build", "cmp2", "cmp3")
	l.do("migrate", "ACTIVE", "cmp1", nil)
	l.agrees("cmp1")
	for _, first := range []string{"cmp2", "cmp3"} { // the scheduler chooses one of them first
		l.fail("build", first)
		other := map[string]string{"cmp2": "cmp3", "cmp3": "cmp2"}[first]
		l.do("migrate", "VERIFY_RESIZE", other, nil)
		l.agrees(other, "cmp1")
		l.do("revertResize", "ACTIVE", "cmp1", nil)
		l.agrees("cmp1")
	}
	l.fail("")
	l.do("os-migrateLive", "ACTIVE", "cmp2", map[string]any{"host": "cmp2", "block_migration": "auto"})
	l.agrees("cmp2")
	l.fail("migrate", "cmp2")
	l.do("os-migrateLive", "ACTIVE", "cmp2", map[string]any{"host": "cmp3", "block_migration": "auto"})
	l.agrees("cmp2")

	l.do("shelve", "SHELVED_OFFLOADED", "", nil)
	l.disable("cmp1")
	l.fail("build", "cmp2", "cmp3")
	l.do("unshelve", "SHELVED_OFFLOADED", "", nil)
	l.until("nothing is allocated or bound", func() bool {
		bound := slices.ContainsFunc(l.ports(l.server.ID), func(p network.Port) bool { return p.Host != "" })
		return !bound && len(l.used())+len(l.allocation(l.server.ID)) == 0
	})
	l.fail("")
	if err := l.compute().Act(t.Context(), l.server.ID, "unshelve", nil); err != nil {
		t.Fatal(err)
	}
	l.agrees(*l.reach(l.server.ID, "ACTIVE").Host)
	l.delete(l.server.ID)
}

// TestPortsOfAServerThatTheFirstHostRefuses creates a server whose first host cannot build its guest: the next host has
// ports and allocation (row N36).
func TestPortsOfAServerThatTheFirstHostRefuses(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newMovesLab(t, "cmp2", "cmp3")
	l.delete(l.server.ID)
	l.until("the port of the user is free", func() bool { return len(l.ports(l.server.ID)) == 0 && len(l.used()) == 0 })
	for _, hosts := range [][]string{{"cmp2", "cmp3"}, {"cmp2"}, {"cmp3"}} {
		l.fail("build", hosts...)
		l.server = l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}, {"port": l.own.ID}})
		l.agrees(*l.server.Host)
		if slices.Contains(hosts, *l.server.Host) {
			t.Errorf("the server is on %s, whose hypervisor refuses it", *l.server.Host)
		}
		l.delete(l.server.ID)
		l.until("nothing is left", func() bool { return len(l.ports(l.server.ID)) == 0 && len(l.used()) == 0 })
	}
}
