package app

import (
	"fmt"
	"strings"
	"testing"
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
// devices there are free: OpenStack's scheduler may refuse them, because none of the first candidates fits.
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
	}{
		"4 of 5 plain devices":         {gpus(5), "gpu:4", 4},
		"3 of 8 plain devices":         {gpus(8), "gpu:3", 3},
		"4 VFs of 4 NICs":              {all, "vf:4", 4},
		"2 GPUs and 2 VFs":             {all, "gpu:2,vf:2", 4},
		"4 GPUs and 4 VFs":             {all, "gpu:4,vf:4", 8},
		"2 GPUs, 2 VFs and 2 NVMe":     {all, "gpu:2,vf:2,nvme:2", 6},
		"4 GPUs with policy required":  {gpus(5), "near:4", 4},
		"4 GPUs with policy socket":    {gpus(5), "socket:4", 4},
		"4 GPUs with policy preferred": {gpus(5), "rather:4", 4},
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
			l.bootCPUs("pinned", "ACTIVE", 8, pinned)
			pinned["pci_passthrough:alias"] = test.alias
			server := l.boot("wants", "ACTIVE", pinned)
			devices, err := l.cloud.HostClient().Devices(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held := 0
			for _, d := range devices {
				if d.Holder == server.ID {
					held++
					if d.NUMANode != 1 {
						t.Errorf("device %s is on node %d; only node 1 has CPUs", d.Address, d.NUMANode)
					}
				}
			}
			if held != test.devices {
				t.Errorf("the server has %d devices", held)
			}
		})
	}
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
	l.boot("both", "ACTIVE", want)
	refused := l.boot("more", "ERROR", want)
	if !strings.Contains(refused.Fault.Message, "fewer than 2 free device 10de:2335 on the host") {
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
			devices, err := l.cloud.HostClient().Devices(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range devices {
				if d.Holder == server.ID && (d.NUMANode == 0) != (n < 4) {
					t.Errorf("policy %s: server %d got a device of node %d", policy, n, d.NUMANode)
				}
			}
		}
		l.down()
	}
}
