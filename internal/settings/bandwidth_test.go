package settings

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
)

// writeNeutron writes files of Neutron into a new directory and returns the directory.
func writeNeutron(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// agentOf returns the configuration of an agent type.
func agentOf(t *testing.T, s Settings, agent bandwidth.AgentType) bandwidth.Agent {
	t.Helper()
	i := slices.IndexFunc(s.Bandwidth.Agents, func(a bandwidth.Agent) bool { return a.Type == agent })
	if i < 0 {
		t.Fatalf("%s is not configured: %+v", agent, s.Bandwidth.Agents)
	}
	return s.Bandwidth.Agents[i]
}

func TestBandwidthOptionsOfNeutronsFiles(t *testing.T) {
	dir := writeNeutron(t, map[string]string{
		"ml2_conf.ini": "[ml2]\ntunnelled_network_rp_name = br-tunnel\n[ovs_driver]\nvnic_type_prohibit_list = " +
			"direct,smart-nic\n" +
			"[ovs]\nresource_provider_default_hypervisor = overridden\n",
		"openvswitch_agent.ini": "[ovs]\nbridge_mappings = physnet0:br-ex,physnet1:br-x\n" +
			"resource_provider_bandwidths = br-ex:1000:2000,\n  br-tunnel:300:\n" +
			"resource_provider_hypervisors = br-ex:other\nresource_provider_default_hypervisor = cmp1.example\n" +
			"resource_provider_inventory_defaults = reserved:10\n" +
			"resource_provider_packet_processing_without_direction = :500\n" +
			"resource_provider_packet_processing_inventory_defaults = step_size:5\n",
		"sriov_agent.ini": "[SRIOV_NIC]\nphysical_device_mappings = physnet0:ens1f0,physnet0:ens1f1\n" +
			"resource_provider_bandwidths = ens1f0:10:20\n",
		"other.txt": "not a configuration",
	})
	s, warned, err := readText(t, "[DEFAULT]\nhost = cmp1\n[sriov_driver]\nvnic_type_prohibit_list = macvtap\n"+
		"[berth]\nneutron_config_files = "+dir+"/*.ini\n")
	if err != nil || warned != "" {
		t.Fatalf("%v %s", err, warned)
	}
	ovs := agentOf(t, s, bandwidth.OpenVSwitch)
	if !s.Bandwidth.Report || len(s.Bandwidth.Agents) != 2 || ovs.Tunnelled != "br-tunnel" ||
		ovs.DefaultHypervisor != "cmp1.example" || ovs.Bandwidths["br-tunnel"].Egress.Amount != 300 ||
		ovs.PacketRates["cmp1.example"].Amount != 500 || *ovs.PacketDefaults.StepSize != 5 || *ovs.Defaults.Reserved != 10 ||
		!slices.Equal(ovs.VNICTypes, []string{"normal", "vdpa"}) {
		t.Errorf("%+v", ovs)
	}
	if got := ovs.DeviceHypervisors(); !maps.Equal(got, map[string]string{"br-ex": "other", "br-x": "cmp1.example",
		"br-tunnel": "cmp1.example"}) {
		t.Error(got)
	}
	nic := agentOf(t, s, bandwidth.NICSwitch)
	if nic.Tunnelled != "" || nic.DefaultHypervisor != "cmp1" || len(nic.Mappings) != 2 ||
		!slices.Equal(nic.VNICTypes, []string{"direct", "direct-physical", "accelerator-direct"}) {
		t.Errorf("%+v", nic)
	}
}

// Without neutron_config_files the options are read from the agent's own files, and without any there is nothing to
// report.
func TestBandwidthOptionsOfTheAgentsFiles(t *testing.T) {
	s, warned, err := readText(t, "[ovs]\nbridge_mappings = physnet0:br-ex\nresource_provider_bandwidths = br-ex:1:2\n")
	if ovs := agentOf(t, s, bandwidth.OpenVSwitch); err != nil || warned != "" || len(ovs.Bandwidths) != 1 ||
		ovs.Tunnelled != "rp_tunnelled" {
		t.Errorf("%+v %v %s", ovs, err, warned)
	}
	s, warned, err = readText(t, "[ovs]\nbridge_mappings =\n[SRIOV_NIC]\n")
	if err != nil || warned != "" || len(s.Bandwidth.Agents) != 0 {
		t.Errorf("%+v %v %s", s.Bandwidth, err, warned)
	}
}

// All errors are reported at once, each with file, line and element.
func TestAllErrorsOfBandwidthOptions(t *testing.T) {
	dir := writeNeutron(t, map[string]string{
		"a.ini": "[ovs]\nbridge_mappings = physnet0:br-ex,physnet0\n" +
			"resource_provider_bandwidths = br-ex:1,br-y:x:1\n[ovs_driver]\nvnic_type_prohibit_list = nomal\n",
		"b.ini": "[SRIOV_NIC]\nphysical_device_mappings = physnet0:ens1f0\nresource_provider_bandwidths = ens9f0:10:20\n" +
			"resource_provider_inventory_defaults = total:5\n",
	})
	text := "[api]\nauth_strategy = noauth2\n[berth]\nneutron_config_files = " + dir + "/a.ini, " + dir + "/b.ini\n"
	path := filepath.Join(t.TempDir(), "berth.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, first := Read(slog.New(slog.DiscardHandler), path)
	if !fault.Is(first, fault.Invalid) {
		t.Fatal(first)
	}
	all := AllErrors(first, path).Error()
	for _, want := range []string{
		`a.ini:2: [ovs] bridge_mappings = physnet0:br-ex,physnet0: element "physnet0":`,
		`a.ini:3: [ovs] resource_provider_bandwidths = br-ex:1,br-y:x:1: element "br-ex:1": it has 2 fields`,
		`a.ini:3: [ovs] resource_provider_bandwidths = br-ex:1,br-y:x:1: element "br-y:x:1": the rate "x"`,
		`a.ini:5: [ovs_driver] vnic_type_prohibit_list = nomal: element "nomal":`,
		`b.ini:4: [SRIOV_NIC] resource_provider_inventory_defaults = total:5: element "total:5":`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("without %q:\n%s", want, all)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "b.ini"), []byte("[SRIOV_NIC]\nphysical_device_mappings = physnet0:ens1f0\n"+
		"resource_provider_bandwidths = ens9f0:10:20\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := AllErrors(first, path).Error(); !strings.Contains(all,
		`b.ini:3: [SRIOV_NIC] resource_provider_bandwidths = ens9f0:10:20: element "ens9f0": device ens9f0 is missing in `+
			`physical_device_mappings`) {
		t.Error(all)
	}
}

// With report_bandwidth = false the errors are Neutron's to report: they do not refuse the start.
func TestErrorsWithoutReportBandwidthAreWarnings(t *testing.T) {
	const wrong = "[ovs]\nbridge_mappings = physnet0\n"
	if _, _, err := readText(t, wrong); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	s, warned, err := readText(t, wrong+"[berth]\nreport_bandwidth = false\n")
	if err != nil || s.Bandwidth.Report || !strings.Contains(warned, "bridge_mappings") {
		t.Errorf("%v %s", err, warned)
	}
}

func TestPacketRatesWithAndWithoutDirectionAreRefused(t *testing.T) {
	_, _, err := readText(t, "[ovs]\nresource_provider_packet_processing_without_direction = :1\n"+
		"resource_provider_packet_processing_with_direction = :1:2\n")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "placement.conf:2: [ovs] "+
		"resource_provider_packet_processing_without_direction") {
		t.Error(err)
	}
}

func TestNeutronConfigFilesThatCannotBeRead(t *testing.T) {
	dir := writeNeutron(t, map[string]string{"bad.ini": "no section\n"})
	for value, words := range map[string]string{
		"ml2.ini":         "not an absolute path",
		dir + "/none.ini": "there is no file",
		dir + "/*.conf":   "there is no file",
		dir + "/[":        "not a valid pattern",
		dir + "/bad.ini":  "bad.ini",
		dir:               "",
	} {
		_, _, err := readText(t, fmt.Sprintf("[berth]\nneutron_config_files = %s\n", value))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), words) ||
			!strings.Contains(err.Error(), "neutron_config_files") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// A mistyped option in Neutron's files would silently report nothing.
func TestMisspelledBandwidthOptionIsWarned(t *testing.T) {
	dir := writeNeutron(t, map[string]string{"a.ini": "[ovs]\nbridge_mappings = physnet0:br-ex\nlocal_ip = 192.0.2.1\n" +
		"resource_provider_bandwith = br-ex:1:1\n"})
	_, warned, err := readText(t, "[berth]\nneutron_config_files = "+dir+"/a.ini\n")
	if err != nil || !strings.Contains(warned, "resource_provider_bandwidths") || strings.Contains(warned, "local_ip") {
		t.Errorf("%v %s", err, warned)
	}
}

func TestOverlappingAgentsAreWarned(t *testing.T) {
	const both = "[ovs]\nbridge_mappings = physnet0:br-ex\nresource_provider_bandwidths = br-ex:1:1\n" +
		"[SRIOV_NIC]\nphysical_device_mappings = physnet0:ens1f0\nresource_provider_bandwidths = ens1f0:1:1\n"
	if _, warned, err := readText(t, both); err != nil || strings.Count(warned, "vnic type direct") != 1 {
		t.Errorf("%v %s", err, warned)
	}
	if _, warned, err := readText(t, both+"[ovs_driver]\nvnic_type_prohibit_list = direct\n"); err != nil || warned != "" {
		t.Errorf("%v %s", err, warned)
	}
}

func TestPhysicalNetworksWithOneTraitAreWarned(t *testing.T) {
	_, warned, err := readText(t, "[ovs]\nbridge_mappings = phys-0:br-ex,phys_0:br-x\n")
	if err != nil || !strings.Contains(warned, "same trait CUSTOM_PHYSNET_PHYS_0") {
		t.Errorf("%v %s", err, warned)
	}
}

// Mappings in Berth's own files are reported to the network service by the agent, which needs [neutron] for that.
// Those of Neutron's files are not: Neutron's agents report themselves.
func TestMappingsThatAreNotReported(t *testing.T) {
	dir := writeNeutron(t, map[string]string{"openvswitch_agent.ini": "[ovs]\nbridge_mappings = physnet0:br-ex\n"})
	for text, want := range map[string]string{
		"[ovs]\nbridge_mappings = physnet0:br-ex\n":               ":4: [ovs] bridge_mappings: the network service",
		"[SRIOV_NIC]\nphysical_device_mappings = physnet0:ens1\n": ":4: [SRIOV_NIC] physical_device_mappings: the",
		"[berth]\nneutron_config_files = " + dir + "/*.ini\n":     "",
		"[berth]\nreport_bandwidth = false\n":                     "",
		"[ovs]\nbridge_mappings = physnet0:br-ex\n[neutron]\nauth_type = http_basic\nendpoint_override = http://n:9696\n" +
			"username = nova\npassword = p\n": "",
	} {
		s, _, err := readText(t, "[DEFAULT]\nhost = cmp1\n"+text)
		if got := s.Unreported(); err != nil || want == "" && got != "" || !strings.Contains(got, want) ||
			want != "" && !strings.Contains(got, "set [neutron] endpoint_override") {
			t.Errorf("%s%q %v, want %q", text, got, err, want)
		}
	}
}
