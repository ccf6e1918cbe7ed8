package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// lab is a whole cloud in memory on the captured sample machine: two NVMe PFs of four VFs each and a plain device.
type lab struct {
	t     *testing.T
	dir   string
	cloud *Cloud
	// more entries of the machine, in the form of a capture
	machine string
	rescan  int           // [berth] rescan_interval; 0: 1 s
	check   time.Duration // between two checks of the hypervisor; 0: that of settings.TestTimes
	sys     string        // the whole machine in the form of a capture; empty: the sample machine
	hosts   []func()      // stop the agents of other hosts
}

func newLab(t *testing.T) *lab { return &lab{t: t, dir: testenv.MemoryDir(t)} }

// up starts the cloud with this configuration, on the existing state.
func (l *lab) up(conf string) {
	l.t.Helper()
	machine, err := sysfs.Sample()
	if err != nil {
		l.t.Fatal(err)
	}
	text, err := sysfs.Capture(machine)
	if err != nil {
		l.t.Fatal(err)
	}
	sys, file := filepath.Join(l.dir, "machine.txtar"), filepath.Join(l.dir, "berth.conf")
	if l.sys != "" {
		text = []byte(l.sys)
	}
	for name, data := range map[string]string{sys: string(text) + l.machine,
		file: "[DEFAULT]\ncompute_driver = fake.FakeDriver\n" + conf + "\n[DEFAULT]\nhost = cmp1\n" +
			"[oslo_concurrency]\nlock_path = " + filepath.Dir(sys) +
			"\n[api]\nauth_strategy = noauth2\n[berth]\nrescan_interval = " + strconv.Itoa(max(l.rescan, 1)) +
			"\nsysfs = " + sys + "\n"} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(l.t.Output(), nil))
	config, err := settings.Read(log, file)
	config.Times = settings.TestTimes()
	config.RequestTime = testenv.Patience
	config.Times.Compute.LeaseTTL = time.Minute // renewals are late on a busy machine, and no other process waits for it
	config.Times.Agent.Check = cmp.Or(l.check, config.Times.Agent.Check)
	if err != nil {
		l.t.Fatal(err)
	}
	if l.cloud, err = Up(l.t.Context(), config, l.dir, log); err != nil {
		l.t.Fatal(err)
	}
}

// host starts the agent of another host, with the same machine and configuration, and waits for its first report.
func (l *lab) host(name string) {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "berth.conf"))
	dir, file := filepath.Join(l.dir, name), filepath.Join(l.dir, name+".conf")
	if err == nil {
		err = os.WriteFile(file, fmt.Appendf(text, "[DEFAULT]\nhost = %s\n[oslo_concurrency]\nlock_path = %s\n", name,
			dir), 0o600)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(l.t.Output(), nil))
	config, err := settings.Read(log, file)
	if err != nil {
		l.t.Fatal(err)
	}
	config.Times = settings.TestTimes()
	config.RequestTime = testenv.Patience
	agent, err := NewAgent(config, filepath.Join(dir, AgentDir), l.cloud.endpoints(), log)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	l.hosts = append(l.hosts, func() {
		cancel()
		<-ended
	})
	l.until(name+" has reported", func() bool {
		hosts, err := l.cloud.HostClient().Hosts(l.t.Context())
		return err == nil && slices.ContainsFunc(hosts, func(h host.Report) bool { return h.Host == name && h.Connected })
	})
}

// act performs an action on a server, and waits for its status on a host.
func (l *lab) act(id, action, status, on string, args map[string]any) {
	l.t.Helper()
	if err := l.compute().Act(l.t.Context(), id, action, args); err != nil {
		l.t.Fatalf("%s: %v", action, err)
	}
	defer func() {
		if why, err := l.compute().Why(context.WithoutCancel(l.t.Context()), id); l.t.Failed() {
			l.t.Log(why, err)
		}
	}()
	l.until(action+": "+status+" on "+on, func() bool {
		s, err := l.compute().Server(l.t.Context(), id)
		return err == nil && s.Status == status && s.TaskState == nil && s.Host != nil && *s.Host == on
	})
}

// down stops all agents and the cloud.
func (l *lab) down() {
	l.t.Helper()
	for _, stop := range l.hosts {
		stop()
	}
	l.hosts = nil
	if err := l.cloud.Close(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) compute() *compute.Client {
	return compute.NewClient("http://compute", rest.InMemory(l.cloud.Compute.Handler), "admin")
}

// boot creates a server of a flavor with these extra specs and waits for the status.
func (l *lab) boot(name, status string, specs map[string]string) compute.Server {
	l.t.Helper()
	return l.bootCPUs(name, status, 1, specs)
}

// bootCPUs is boot for a flavor with this number of CPUs.
func (l *lab) bootCPUs(name, status string, cpus int, specs map[string]string) compute.Server {
	l.t.Helper()
	f, err := l.compute().CreateFlavor(l.t.Context(), compute.CreateFlavor{Name: "f-" + name, VCPUs: cpus, RAM: 64,
		Disk: 1})
	if err == nil {
		err = l.compute().SetExtraSpecs(l.t.Context(), f.ID, specs)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	made, err := l.compute().CreateServer(l.t.Context(), compute.CreateServer{Name: name, Flavor: f.ID})
	if err != nil {
		l.t.Fatal(err)
	}
	var server compute.Server
	l.until(name+" "+status, func() bool {
		server, err = l.compute().Server(l.t.Context(), made.ID)
		if err == nil && server.Status == "ERROR" && status != "ERROR" {
			l.t.Fatalf("%s is in ERROR: %+v", name, server.Fault)
		}
		return err == nil && server.Status == status
	})
	return server
}

func (l *lab) delete(id string) {
	l.t.Helper()
	if err := l.compute().DeleteServer(l.t.Context(), id); err != nil {
		l.t.Fatal(err)
	}
	l.until("nothing is allocated", func() bool { return len(l.allocation(id)) == 0 })
}

func (l *lab) until(what string, holds func() bool) {
	l.t.Helper()
	testenv.Until(l.t, what, holds)
}

func (l *lab) allocation(consumer string) resource.Allocation {
	l.t.Helper()
	held, err := l.cloud.PlacementClient().Allocation(l.t.Context(), resource.ConsumerID(consumer))
	if err != nil {
		l.t.Fatal(err)
	}
	return held.Allocation
}

func (l *lab) provider(name string) provider.Provider {
	l.t.Helper()
	root, err := l.cloud.PlacementClient().ProviderByName(l.t.Context(), "cmp1")
	if err != nil {
		l.t.Fatal(err)
	}
	tree, err := l.cloud.PlacementClient().Tree(l.t.Context(), root.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	p, _ := tree.ByName(name)
	return p
}

func (l *lab) conditions() string {
	l.t.Helper()
	hosts, err := l.cloud.HostClient().Hosts(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	var all []string
	for _, h := range hosts {
		all = append(all, condition.Texts(h.Conditions)...)
	}
	return strings.Join(all, "\n")
}

// sampleProducts returns the product of the sample's VFs, and the product and address of its plain device.
func sampleProducts(t *testing.T) (vf, plain string) {
	t.Helper()
	machine, err := sysfs.Sample()
	if err != nil {
		t.Fatal(err)
	}
	facts, err := sysfs.Read(machine)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range facts.Devices {
		switch {
		case d.Parent != nil:
			vf = d.Vendor + ":" + d.Product
		case d.TotalVFs == 0 && !d.IsBridge():
			plain = d.Vendor + ":" + d.Product + " " + d.Address.String()
		}
	}
	return vf, plain
}

// taken returns the resources of a server on each provider below the root: its allocation in Placement, and the devices
// that the agent reports for it.
func (l *lab) taken(server string) (placement, agent map[provider.ID]int) {
	l.t.Helper()
	placement, agent = map[provider.ID]int{}, map[provider.ID]int{}
	for id, amounts := range l.allocation(server) {
		for class, n := range amounts {
			if resource.IsCustom(string(class)) {
				placement[id] += n
			}
		}
	}
	devices, err := l.cloud.HostClient().Devices(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, d := range devices {
		if d.Holder == server {
			agent[provider.ID(d.Provider)]++
		}
	}
	return placement, agent
}

// has checks what a server has of each provider: in Placement now, and by its devices as soon as the agent reports
// them.
func (l *lab) has(server string, want map[provider.ID]int) {
	l.t.Helper()
	if placement, _ := l.taken(server); !maps.Equal(placement, want) {
		l.t.Errorf("in Placement %s has %v, want %v", server, placement, want)
	}
	l.until("the agent has given these devices", func() bool {
		_, agent := l.taken(server)
		return maps.Equal(agent, want)
	})
}

// quiet checks that the agent has nothing to change.
func (l *lab) quiet() {
	l.t.Helper()
	l.until("nothing to do", func() bool {
		_, empty, err := l.cloud.Plan(l.t.Context())
		return err == nil && empty && l.conditions() == ""
	})
}
