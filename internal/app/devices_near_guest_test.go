package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
)

const (
	gpuRule  = `device_spec = {"vendor_id": "10de", "product_id": "2330", "resource_class": "CUSTOM_GPU"}`
	vfRule   = `device_spec = {"vendor_id": "15b3", "product_id": "101e", "resource_class": "CUSTOM_VF"}`
	nvmeRule = `device_spec = {"vendor_id": "144d", "product_id": "a808", "resource_class": "CUSTOM_NVME"}`
)

// alias returns the option for an alias of a class.
func alias(name, class, policy string) string {
	return fmt.Sprintf("alias = {\"name\": %q, \"resource_class\": %q, \"numa_policy\": %q}", name, class, policy)
}

// twoNodes returns a machine of two nodes of 8 CPUs, each with these devices.
func twoNodes(each func(m *machine, node int)) string {
	m := &machine{}
	for node := range 2 {
		each(m, node)
	}
	for node := range 2 {
		m.node(node, node*8, 8)
	}
	return m.text()
}

// Servers whose devices must be near their NUMA nodes fit, although pinned guests have all CPUs of node 0 and the
// devices there are free: OpenStack's scheduler may refuse them, because none of the first candidates fits. As many fit
// as the headroom says, and they move to an equal host.
func TestDevicesNearTheOnlyNodeWithCPUs(t *testing.T) {
	t.Parallel()
	gpus := func(n int) func(*machine, int) {
		return func(m *machine, node int) { m.devices(node, n, "10de", "2330", "030200") }
	}
	all := func(m *machine, node int) {
		m.devices(node, 4, "10de", "2330", "030200")
		m.nics(node, 4, 16)
		m.devices(node, 4, "144d", "a808", "010802")
	}
	for name, test := range map[string]struct {
		machine func(*machine, int)
		alias   string
		devices int
		fits    int // servers
	}{
		"4 of 5 plain devices":         {gpus(5), "gpu:4", 4, 1},
		"3 of 8 plain devices":         {gpus(8), "gpu:3", 3, 2},
		"4 VFs of 4 NICs":              {all, "vf:4", 4, 8}, // which have the CPUs
		"2 GPUs and 2 VFs":             {all, "gpu:2,vf:2", 4, 2},
		"4 GPUs and 4 VFs":             {all, "gpu:4,vf:4", 8, 1},
		"2 GPUs, 2 VFs and 2 NVMe":     {all, "gpu:2,vf:2,nvme:2", 6, 2},
		"4 GPUs with policy required":  {gpus(5), "near:4", 4, 1},
		"4 GPUs with policy socket":    {gpus(5), "socket:4", 4, 1},
		"4 GPUs with policy preferred": {gpus(5), "rather:4", 4, 2}, // of which the second has others
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.sys = twoNodes(test.machine)
			l.up("[compute]\ncpu_dedicated_set = 0-15\n[pci]\n" + strings.Join([]string{gpuRule, vfRule, nvmeRule,
				alias("gpu", "CUSTOM_GPU", "legacy"), alias("vf", "CUSTOM_VF", "legacy"),
				alias("nvme", "CUSTOM_NVME", "legacy"), alias("near", "CUSTOM_GPU", "required"),
				alias("socket", "CUSTOM_GPU", "socket"), alias("rather", "CUSTOM_GPU", "preferred")}, "\n") +
				"\nreport_in_placement = true\n[filter_scheduler]\npci_in_placement = true")
			defer l.down()
			pinned := map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1"}
			wants := map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1", "pci_passthrough:alias": test.alias}
			l.bootCPUs("pinned", "ACTIVE", 8, pinned)
			if fits := l.headroom("wants", wants); fits != test.fits {
				t.Errorf("the headroom is %d, not %d", fits, test.fits)
			}
			first := l.boot("first", "ACTIVE", wants)
			for n := range test.fits - 1 {
				l.boot(fmt.Sprint("further", n), "ACTIVE", wants)
			}
			l.boot("last", "ERROR", wants)
			l.wantNear(first.ID, "cmp1", test.devices)

			l.host("cmp2")
			l.enable("cmp1", false)
			second := l.bootCPUs("pinned too", "ACTIVE", 8, pinned)
			l.enable("cmp1", true)
			l.act(first.ID, "migrate", "VERIFY_RESIZE", "cmp2", nil)
			l.act(first.ID, "confirmResize", "ACTIVE", "cmp2", nil)
			l.wantNear(first.ID, "cmp2", test.devices)
			l.delete(second.ID)
			l.until("the earlier guest on cmp1 is gone", func() bool {
				plan, err := l.cloud.HostClient().PlanDrain(t.Context(), "cmp2", "")
				return err == nil && len(plan) == 1 && plan[0].To == "cmp1"
			})
			if one, err := l.cloud.HostClient().PlanMove(t.Context(), "cmp2", first.ID); err != nil || one.To != "cmp1" {
				t.Errorf("its own plan: %+v, %v", one, err)
			}
			if _, err := l.cloud.HostClient().PlanMove(t.Context(), "cmp1", first.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("a plan for another host: %v", err)
			}
			drain := cli.HostDrainCmd{Host: "cmp2", Each: time.Minute}
			if err := drain.Run(l.globals()); err != nil {
				t.Fatal(err)
			}
			l.wantNear(first.ID, "cmp1", test.devices)
		})
	}
}

// globals returns the options of a command.
func (l *lab) globals() *cli.Globals {
	return &cli.Globals{ComputeURL: "http://compute", HTTP: rest.InMemory(l.cloud.Compute.Handler), Token: "admin",
		Stdout: l.t.Output(), Stderr: l.t.Output()}
}

// enable enables or disables a host.
func (l *lab) enable(host string, enabled bool) {
	l.t.Helper()
	services, err := l.compute().Services(l.t.Context())
	for _, service := range services {
		if err == nil && service.Host == host {
			err = l.compute().SetServiceStatus(l.t.Context(), service, enabled, "")
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// wantNear checks that a server has a number of devices on a host, all of node 1.
func (l *lab) wantNear(server, host string, devices int) {
	l.t.Helper()
	l.until(fmt.Sprintf("%d devices of %s", devices, host), func() bool {
		held := l.held(server)
		for _, d := range held {
			if d.Host == host && d.NUMANode != 1 {
				l.t.Fatalf("the device %s of %s is on node %d; only node 1 has CPUs", d.Address, host, d.NUMANode)
			}
		}
		return len(held) == devices && !slices.ContainsFunc(held, func(d api.Device) bool { return d.Host != host })
	})
}

// A class has 40 devices of one product and 2 of another, and the alias names the ids of the 2: a server of both gets
// them. Placement counts devices by class, so most of its candidates have others.
func TestFewDevicesOfSharedClass(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sys = twoNodes(func(m *machine, node int) {
		m.devices(node, 20, "10de", "2330", "030200")
		m.devices(node, 1, "10de", "2335", "030200")
	})
	l.up("[pci]\n" + gpuRule + "\n" + strings.Replace(gpuRule, "2330", "2335", 1) + "\n" +
		`alias = {"name": "rare", "resource_class": "CUSTOM_GPU", "vendor_id": "10de", "product_id": "2335"}` +
		"\nreport_in_placement = true\n[filter_scheduler]\npci_in_placement = true")
	defer l.down()
	want := map[string]string{"pci_passthrough:alias": "rare:2"}
	if fits := l.headroom("rare", want); fits != 1 {
		t.Errorf("the headroom is %d", fits)
	}
	l.boot("both", "ACTIVE", want)
	refused := l.boot("more", "ERROR", want)
	if !strings.Contains(refused.Fault.Message, "fewer than 2 free devices 10de:2335 on the host") {
		t.Error(refused.Fault)
	}
}

// Near devices are given first, as long as there are some, also if the policy permits others.
func TestNearDevicesFirst(t *testing.T) {
	t.Parallel()
	for policy, other := range map[string]int{"preferred": 1, "legacy": -1} {
		l := newLab(t)
		m := &machine{}
		m.devices(other, 6, "10de", "2330", "030200")
		m.devices(0, 4, "10de", "2330", "030200")
		m.node(0, 0, 16)
		m.node(1, 16, 1)
		l.sys = m.text()
		l.up("[compute]\ncpu_dedicated_set = 0-15\n[pci]\n" + gpuRule + "\n" + alias("gpu", "CUSTOM_GPU", policy) +
			"\nreport_in_placement = true\n[filter_scheduler]\npci_in_placement = true")
		for n := range 10 {
			server := l.boot(fmt.Sprint("s", n), "ACTIVE", map[string]string{"hw:cpu_policy": "dedicated",
				"pci_passthrough:alias": "gpu:1"})
			for _, d := range l.held(server.ID) {
				if (d.NUMANode == 0) != (n < 4) {
					t.Errorf("policy %s: server %d got a device of node %d", policy, n, d.NUMANode)
				}
			}
		}
		l.down()
	}
}

// A server gets GPUs although there are very many ways to give them: each of its devices is a request of its own, and
// Placement could answer with any combination. With group_policy=isolate it gets VFs of different NICs.
func TestManyEqualDevicesInRandomOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sys = twoNodes(func(m *machine, node int) {
		m.devices(node, 8, "10de", "2330", "030200")
		m.nics(node, 2, 8)
	})
	l.up("[placement]\nrandomize_allocation_candidates = true\n[pci]\n" + gpuRule + "\n" + vfRule + "\n" +
		alias("gpu", "CUSTOM_GPU", "legacy") + "\n" + alias("vf", "CUSTOM_VF", "legacy") +
		"\nreport_in_placement = true\n[filter_scheduler]\npci_in_placement = true")
	defer l.down()
	want, began := map[string]string{"pci_passthrough:alias": "gpu:8"}, time.Now()
	if fits := l.headroom("eight", want); fits != 2 {
		t.Errorf("the headroom is %d", fits)
	}
	l.boot("first", "ACTIVE", want)
	want["group_policy"] = "isolate"
	if fits := l.headroom("isolated", want); fits != 1 {
		t.Errorf("the headroom with isolate is %d", fits)
	}
	l.boot("second", "ACTIVE", want)
	want["pci_passthrough:alias"] = "vf:4"
	if fits := l.headroom("vf", want); fits != 8 {
		t.Errorf("the headroom of 4 isolated VFs is %d", fits)
	}
	nics := map[string]bool{}
	for _, d := range l.held(l.boot("vf", "ACTIVE", want).ID) {
		nics[d.Provider] = true
	}
	if len(nics) != 4 {
		t.Errorf("4 isolated VFs are of %d NICs", len(nics))
	}
	want["pci_passthrough:alias"] = "vf:5"
	l.wantError(l.boot("more", "ERROR", want), "on providers of their own (group_policy isolate)")
	if took := time.Since(began); took > 2*time.Minute { // it was more than 45 s for each
		t.Error("it took", took)
	}
}

// A device of a node without CPUs is near the nearest node that has some. A refusal has both nodes and their distance.
func TestDevicesOfNodesWithoutCPUs(t *testing.T) {
	t.Parallel()
	l, m := newLab(t), &machine{}
	for node := range 2 {
		m.devices(2+node, 1, "10de", "2330", "030200")
		m.node(node, node*8, 8)
		m.node(2+node, 0, 0)
	}
	for node, distances := range []string{"10 40 80 120", "40 10 120 80", "80 120 10 120", "120 80 120 10"} {
		m.file(fmt.Sprintf("devices/system/node/node%d/distance", node), distances)
	}
	l.sys = m.text()
	policies := []string{"legacy", "required", "socket"}
	text := "[compute]\ncpu_dedicated_set = 0-15\n[pci]\nreport_in_placement = true\n" + gpuRule + "\n"
	for _, policy := range policies {
		text += alias(policy, "CUSTOM_GPU", policy) + "\n"
	}
	l.up(text + "[filter_scheduler]\npci_in_placement = true")
	defer l.down()
	pinned := map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1"}
	l.bootCPUs("pinned", "ACTIVE", 8, pinned)
	for _, policy := range policies {
		pinned["pci_passthrough:alias"] = policy + ":1"
		if fits := l.headroom(policy, pinned); fits != 1 {
			t.Errorf("policy %s: the headroom is %d", policy, fits)
		}
		server := l.boot(policy, "ACTIVE", pinned)
		if held := l.held(server.ID); len(held) != 1 || held[0].NUMANode != 3 {
			t.Errorf("policy %s: %+v", policy, held)
		}
		refused := l.boot("second "+policy, "ERROR", pinned)
		l.wantError(refused, "policy "+policy)
		l.wantError(refused, "on node 2 without CPUs (nearest node with CPUs: 0, distance 80)")
		l.delete(server.ID)
	}
}
