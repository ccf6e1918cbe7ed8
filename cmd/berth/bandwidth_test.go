package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
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
	testenv.Until(f.t, "the tree of "+name+" is read", func() (bool, error) {
		root, err := p.ProviderByName(f.t.Context(), name)
		if err == nil {
			tree, err = p.Tree(f.t.Context(), root.ID)
		}
		return err == nil, err
	})
	return tree
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
	own := writeConf(t, "[DEFAULT]", "host = cmp1", "[berth]", n.option(), "[ovs]", "bridge_mappings = physnet0:br-ex",
		"[compute]", "endpoint_override = http://controller:8774")
	var out bytes.Buffer
	run([]string{"agent", "check", "--config-file", own, "--sysfs", nics(t)}, &out, &out)
	if !strings.Contains(out.String(), "[ovs] bridge_mappings: the network service does not learn this") {
		t.Errorf("the missing [neutron] is not named:\n%s", &out)
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
