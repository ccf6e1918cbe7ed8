package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// nics writes the machine of bus81 with the interfaces ens2 and ens3 of its PFs. The link of ens3 has 10 Gbit/s.
func nics(t *testing.T) string {
	t.Helper()
	path := bus81(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mac = "00:00:00:00:00:00\n"
	text = fmt.Appendf(text, "-- devices/pci0000:80/0000:81:02.0/net/ens2/address --\n%s"+
		"-- devices/pci0000:80/0000:81:03.0/net/ens3/address --\n%s-- class/net/ens3/speed --\n10000\n-- "+
		"class/net/ens2/ --\n",
		mac, mac)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// neutron is the directory of Neutron's files of a host.
type neutron struct {
	t   *testing.T
	dir string
}

// write writes the files of the Open vSwitch and the SR-IOV agent.
func (n neutron) write(ovs, nic string) {
	n.t.Helper()
	for name, text := range map[string]string{"ml2_conf.ini": "[ml2]\ntunnelled_network_rp_name = rp_tunnelled\n" +
		"[sriov_driver]\nvnic_type_prohibit_list = direct-physical, accelerator-direct\n" +
		"[ovs_driver]\nvnic_type_prohibit_list = direct\n",
		"openvswitch_agent.ini": "[ovs]\n" + ovs, "sriov_agent.ini": "[SRIOV_NIC]\n" + nic} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
}

// option returns the section of the agent's file that names the directory.
func (n neutron) option() string { return "neutron_config_files = " + n.dir + "/*.ini\n" }

const (
	ovsOptions = "bridge_mappings = physnet0:br-ex\n" +
		"resource_provider_bandwidths = br-ex:2000000:1000000,rp_tunnelled:300:\n" +
		"resource_provider_packet_processing_without_direction = :700\n"
	nicOptions = "physical_device_mappings = physnet0:ens2,physnet1:ens3\n" +
		"resource_provider_bandwidths = ens2:4000:5000,ens3:6000:7000\n" +
		"resource_provider_inventory_defaults = step_size:10,reserved:1000\n"
)

// tree returns the providers of a host. It reads again when a provider was deleted meanwhile.
func (f *fleet) tree(name string) (tree provider.Tree) {
	f.t.Helper()
	p := f.placement.placement()
	eventually(f.t, "the tree of "+name+" is read", func() (bool, error) {
		root, err := p.ProviderByName(f.t.Context(), name)
		if err == nil {
			tree, err = p.Tree(f.t.Context(), root.ID)
		}
		return err == nil, err
	})
	return tree
}

// bandwidthTree returns the bandwidth providers of a tree, one a line: name, parent, inventories and traits.
func bandwidthTree(tree provider.Tree) string {
	var lines []string
	for _, p := range tree.Providers {
		if _, is := bandwidth.Recognise(p); !is {
			continue
		}
		parent, _ := tree.ByID(p.Parent)
		line := p.Name + " in " + parent.Name + ":"
		for _, class := range bandwidth.Classes() {
			if inv, has := p.Inventories[class]; has {
				line += fmt.Sprintf(" %s %d/%d/%d", class, inv.Total, inv.Reserved, inv.StepSize)
			}
		}
		for _, trait := range p.Traits {
			line += " " + string(trait)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// waitForBandwidth waits until the bandwidth providers of cmp1 are these lines.
func (f *fleet) waitForBandwidth(lines ...string) {
	f.t.Helper()
	want := strings.Join(lines, "\n")
	eventually(f.t, "cmp1 has the expected bandwidth providers", func() (bool, error) {
		got := bandwidthTree(f.tree("cmp1"))
		return got == want, fmt.Errorf("\n%s\nwant\n%s", got, want)
	})
}

const (
	nicTraits = " CUSTOM_VNIC_TYPE_DIRECT CUSTOM_VNIC_TYPE_MACVTAP"
	ovsTraits = " CUSTOM_VNIC_TYPE_NORMAL CUSTOM_VNIC_TYPE_SMART_NIC CUSTOM_VNIC_TYPE_VDPA"

	nicLine  = "cmp1:NIC Switch agent in cmp1:" + nicTraits
	ens2Line = "cmp1:NIC Switch agent:ens2 in cmp1:NIC Switch agent: NET_BW_EGR_KILOBIT_PER_SEC 4000/1000/10 " +
		"NET_BW_IGR_KILOBIT_PER_SEC 5000/1000/10 CUSTOM_PHYSNET_PHYSNET0" + nicTraits
	ens3Line = "cmp1:NIC Switch agent:ens3 in cmp1:NIC Switch agent: NET_BW_EGR_KILOBIT_PER_SEC 6000/1000/10 " +
		"NET_BW_IGR_KILOBIT_PER_SEC 7000/1000/10 CUSTOM_PHYSNET_PHYSNET1" + nicTraits
	ovsLine    = "cmp1:Open vSwitch agent in cmp1: NET_PACKET_RATE_KILOPACKET_PER_SEC 700/0/1" + ovsTraits
	bridgeLine = "cmp1:Open vSwitch agent:br-ex in cmp1:Open vSwitch agent: NET_BW_EGR_KILOBIT_PER_SEC 2000000/0/1 " +
		"NET_BW_IGR_KILOBIT_PER_SEC 1000000/0/1 CUSTOM_PHYSNET_PHYSNET0" + ovsTraits
	tunnelLine = "cmp1:Open vSwitch agent:rp_tunnelled in cmp1:Open vSwitch agent: NET_BW_EGR_KILOBIT_PER_SEC 300/0/1 " +
		"CUSTOM_NETWORK_TUNNEL_PROVIDER" + ovsTraits
)

// An agent with Neutron's files reports bandwidth to Placement: at first, unchanged, changed, removed, in use, and not
// at all. If its own file has mappings, and no [neutron] names the network service, a condition says so.
func TestBandwidthOfAHost(t *testing.T) {
	t.Parallel()
	f, n := newFleet(t, ""), neutron{t, t.TempDir()}
	n.write(ovsOptions, nicOptions)
	file := f.host("cmp1", nics(t), n.option()+deviceSpecs+reportInPlacement)
	plan, stderr, status := output(t, f.args("agent", "plan", "--config-file", file, "--data-dir", f.path("cmp1"))...)
	if status != 0 || !strings.Contains(plan, "create provider  cmp1:NIC Switch agent:ens3  under cmp1:NIC Switch agent") {
		t.Errorf("status %d:\n%s%s", status, plan, stderr)
	}
	f.startAgent("cmp1", file)
	f.waitForBandwidth(nicLine, ens2Line, ens3Line, ovsLine, bridgeLine, tunnelLine)
	if id := f.provider("cmp1:Open vSwitch agent:br-ex").ID; id != "4bc70a18-c93a-5a25-aca5-1279387a4cec" {
		t.Errorf("br-ex has ID %s, which is not Neutron's", id)
	}
	f.devicesAreReported()

	before := f.tree("cmp1")
	f.startAgent("cmp1", file)
	f.waitForSync()
	if after := f.tree("cmp1"); !reflect.DeepEqual(after, before) || strings.Contains(f.agents["cmp1"].log.String(),
		"step=") {
		t.Errorf("an unchanged host writes: %s", f.agents["cmp1"].log)
	}
	plan, _, status = output(t, f.args("agent", "plan", "-o", "json", "--config-file", file, "--data-dir",
		f.path("cmp1"))...)
	var doc host.PlanDoc
	if err := json.Unmarshal([]byte(plan), &doc); err != nil || status != 0 || len(doc.Steps) != 0 {
		t.Errorf("%v %s", err, plan)
	}

	p := f.placement.placement()
	ens3, consumer := f.provider("cmp1:NIC Switch agent:ens3").ID, resource.ConsumerID(
		"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
	if err := p.PutAllocation(t.Context(), consumer, placement.ConsumerAllocation{Project: "p", User: "u",
		ConsumerType: "INSTANCE", Allocation: resource.Allocation{ens3: {bandwidth.EgressBandwidth: 100}}}); err != nil {
		t.Fatal(err)
	}
	n.write(strings.Replace(ovsOptions, "2000000", "3000000", 1), "physical_device_mappings = physnet-new:ens2\n"+
		"resource_provider_bandwidths = ens2:4000:\n")
	f.startAgent("cmp1", file)
	ens2Changed := "cmp1:NIC Switch agent:ens2 in cmp1:NIC Switch agent: NET_BW_EGR_KILOBIT_PER_SEC 4000/0/1 " +
		"CUSTOM_PHYSNET_PHYSNET_NEW" + nicTraits
	ens3Reserved := "cmp1:NIC Switch agent:ens3 in cmp1:NIC Switch agent: NET_BW_EGR_KILOBIT_PER_SEC 6000/6000/10 " +
		"NET_BW_IGR_KILOBIT_PER_SEC 7000/7000/10 CUSTOM_PHYSNET_PHYSNET1" + nicTraits
	bridgeChanged := strings.Replace(bridgeLine, "2000000", "3000000", 1)
	f.waitForBandwidth(nicLine, ens2Changed, ens3Reserved, ovsLine, bridgeChanged, tunnelLine)
	eventually(t, "the device in use is a condition", func() (bool, error) {
		text := f.conditions("cmp1")
		return strings.Contains(text, "cmp1:NIC Switch agent:ens3 stays") && strings.Contains(text, string(consumer)),
			fmt.Errorf("conditions %q", text)
	})
	if err := p.DeleteAllocation(t.Context(), consumer); err != nil {
		t.Fatal(err)
	}
	f.waitForBandwidth(nicLine, ens2Changed, ovsLine, bridgeChanged, tunnelLine)

	n.write("", nicOptions)
	before = f.tree("cmp1")
	f.startAgent("cmp1", f.host("cmp1", nics(t), n.option()+"report_bandwidth = false\n"+deviceSpecs+reportInPlacement))
	f.waitForSync()
	if after := f.tree("cmp1"); !reflect.DeepEqual(after, before) {
		t.Errorf("an agent with report_bandwidth = false changes the tree:\n%s", bandwidthTree(after))
	}
	f.startAgent("cmp1", f.host("cmp1", nics(t), n.option()+deviceSpecs+reportInPlacement))
	f.waitForBandwidth(nicLine, ens2Line, ens3Line, ovsLine, bridgeChanged, tunnelLine)
	f.devicesAreReported()
	if text := f.conditions("cmp1"); strings.Contains(text, "[neutron]") {
		t.Errorf("a host whose mappings Neutron's agents report: %s", text)
	}
	own := f.host("cmp1", nics(t), n.option()+deviceSpecs+reportInPlacement+"[ovs]\nbridge_mappings = physnet0:br-ex\n")
	f.startAgent("cmp1", own)
	missing := "[ovs] bridge_mappings: the network service does not learn this"
	eventually(t, "the missing [neutron] is a condition", func() (bool, error) {
		text := f.conditions("cmp1")
		return strings.Contains(text, missing), fmt.Errorf("conditions %q, want %q", text, missing)
	})
	if out, _, _ := output(t, f.args("agent", "check", "--config-file", own)...); !strings.Contains(out, missing) {
		t.Errorf("berth agent check does not name [neutron]:\n%s", out)
	}
}

// provider returns a provider of cmp1 by its name.
func (f *fleet) provider(name string) provider.Provider {
	f.t.Helper()
	p, found := f.tree("cmp1").ByName(name)
	if !found {
		f.t.Fatalf("Placement has no provider %s", name)
	}
	return p
}

// devicesAreReported checks that the PCI devices of cmp1 are reported as without bandwidth.
func (f *fleet) devicesAreReported() {
	f.t.Helper()
	for name, class := range map[string]resource.Class{"cmp1_0000:81:00.0": "CUSTOM_PCI_8086_1533",
		"cmp1_0000:81:03.0": "CUSTOM_PCI_8086_1515"} {
		if p := f.provider(name); p.Inventories[class].Total == 0 {
			f.t.Errorf("%+v", p)
		}
	}
}

// waitForSync waits until the agent of cmp1 has reported twice, with a rescan between.
func (f *fleet) waitForSync() {
	f.t.Helper()
	for range 2 {
		before := f.lastReport("cmp1")
		eventually(f.t, "another report", func() (bool, error) { return f.lastReport("cmp1") != before, nil })
	}
}

// The check prints the providers, and all errors of Neutron's files and of the machine's interfaces.
func TestAgentCheckOfBandwidth(t *testing.T) {
	t.Parallel()
	n := neutron{t, t.TempDir()}
	conf := writeConf(t, "[DEFAULT]", "host = cmp1", "[berth]", n.option())
	check := func(args ...string) (string, int) {
		var out bytes.Buffer
		status := run(append([]string{"agent", "check", "--config-file", conf, "--sysfs", nics(t)}, args...), &out, &out)
		return out.String(), status
	}
	n.write(ovsOptions, nicOptions)
	text, status := check()
	for _, want := range []string{"cmp1:NIC Switch agent:ens3", "NET_BW_EGR_KILOBIT_PER_SEC 6000, " +
		"NET_BW_IGR_KILOBIT_PER_SEC 7000", "CUSTOM_PHYSNET_PHYSNET1", "NET_PACKET_RATE_KILOPACKET_PER_SEC 700",
		"0 errors, 0 warnings"} {
		if !strings.Contains(text, want) || status != 0 {
			t.Errorf("status %d, no %q in\n%s", status, want, text)
		}
	}
	n.write(ovsOptions, "physical_device_mappings = physnet0:ens9,physnet1:ens3\n"+
		"resource_provider_bandwidths = ens3:20000000:1,ens9:1:1\n")
	text, status = check()
	for _, want := range []string{
		`sriov_agent.ini:2: [SRIOV_NIC] physical_device_mappings: element "ens9": interface ens9 ` +
			"does not exist",
		`sriov_agent.ini:3: [SRIOV_NIC] resource_provider_bandwidths: element "ens3": the egress rate of ` +
			"20000000 kbit/s is above the link speed of 10000000 kbit/s", "not reported: interface ens9",
		"1 errors, 1 warnings"} {
		if !strings.Contains(text, want) || status != 1 {
			t.Errorf("status %d, no %q in\n%s", status, want, text)
		}
	}
	n.write("bridge_mappings = br-ex\nresource_provider_bandwidths = br-ex:1\n", nicOptions)
	text, status = check("-o", "json")
	var c settings.CheckReport
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&c); err != nil || status != 1 || c.Errors() != 2 ||
		!strings.Contains(c.Findings[0].Sentence, "openvswitch_agent.ini:2: [ovs] bridge_mappings = br-ex: element "+
			"\"br-ex\"") {
		t.Errorf("%v, status %d:\n%s", err, status, text)
	}
	i := slices.IndexFunc(c.Bandwidth, func(p settings.CheckedProvider) bool {
		return p.Name == "cmp1:NIC Switch "+
			"agent:ens2"
	})
	if i < 0 || c.Bandwidth[i].Root != "cmp1" || c.Bandwidth[i].Inventories["NET_BW_IGR_KILOBIT_PER_SEC"] != 5000 ||
		len(c.Bandwidth[i].UUID) != 36 {
		t.Errorf("%+v", c.Bandwidth)
	}
}

// An agent with a wrong option does not start, and reports all errors.
func TestAgentRefusesWrongBandwidthOptions(t *testing.T) {
	t.Parallel()
	n := neutron{t, t.TempDir()}
	n.write("bridge_mappings = br-ex\n", "resource_provider_bandwidths = ens2:1\n")
	conf := writeConf(t, "[api]", "auth_strategy = noauth2", "[berth]", n.option())
	_, stderr, status := output(t, "agent", "--config-file", conf, "--data-dir", t.TempDir(), "--placement-url",
		"http://127.0.0.1:1", "--compute-url", "http://127.0.0.1:1")
	if status != 1 || !strings.Contains(stderr, "openvswitch_agent.ini:2") ||
		!strings.Contains(stderr, "sriov_agent.ini:2") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
