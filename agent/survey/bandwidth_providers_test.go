package survey

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// bandwidthFacts returns a host with the PFs ens1f0 and ens1f1, of which the bond bond0 has one, and the agents.
func bandwidthFacts(agents ...bandwidth.Agent) BandwidthFacts {
	first, second, plain := pci.Address{Bus: 1}, pci.Address{Bus: 1, Func: 1}, pci.Address{Bus: 2}
	return BandwidthFacts{Agents: agents, Roots: map[string]provider.ID{"cmp1": root}, NICsRead: true,
		NICs: []facts.NIC{{Name: "bond0", Bond: true, SpeedMbps: 10000}, {Name: "eno1", Address: &plain},
			{Name: "ens1f0", Address: &first, SpeedMbps: 10000}, {Name: "ens1f1", Address: &second, Master: "bond0"}},
		Devices: []pci.Device{{Address: first, Type: pci.Physical}, {Address: second, Type: pci.Physical},
			{Address: plain, Type: pci.Plain}}}
}

// rate returns equal rates for both directions, in kilobits per second.
func rate(n int) bandwidth.Rates {
	r := bandwidth.Rate{Amount: n, Set: true}
	return bandwidth.Rates{Egress: r, Ingress: r}
}

func nicAgent(rates map[string]bandwidth.Rates, devices ...string) bandwidth.Agent {
	a := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: "cmp1", Bandwidths: rates,
		VNICTypes: []string{"direct"}, At: map[bandwidth.Option]string{bandwidth.DeviceMappingsOption: "sriov.ini:2"}}
	for _, device := range devices {
		a.Mappings = append(a.Mappings, bandwidth.Mapping{Physnet: "physnet0", Device: device})
	}
	return a
}

func TestBandwidthProvidersBelowKnownRoots(t *testing.T) {
	a := nicAgent(map[string]bandwidth.Rates{"ens1f0": rate(1), "ens1f1": rate(1), "ens9": rate(1)}, "ens1f0", "ens1f1",
		"ens9")
	a.Hypervisors = map[string]string{"ens1f1": "unknown"}
	list := Bandwidth(bandwidthFacts(a))
	var got []string
	for _, d := range list {
		got = append(got, d.Provider.Name+" "+d.Absent)
	}
	want := "cmp1:NIC Switch agent |cmp1:NIC Switch agent:ens1f0 |cmp1:NIC Switch agent:ens9 interface ens9 does " +
		"not exist " +
		"on this host; correct sriov.ini:2: [SRIOV_NIC] physical_device_mappings or load its driver"
	if strings.Join(got, "|") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "|"), want)
	}
	if list[0].Provider.Parent != root || list[1].Provider.Parent != list[0].Provider.ID {
		t.Errorf("%+v", list)
	}
}

func TestInterfaceFindings(t *testing.T) {
	none := map[string]bandwidth.Rates{}
	bridge := bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: "cmp1",
		Mappings:   []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-none"}, {Physnet: "physnet1", Device: "bond0"}},
		Bandwidths: map[string]bandwidth.Rates{"br-none": rate(1 << 30), "bond0": rate(10_000_000)}}
	for name, row := range map[string]struct {
		agents []bandwidth.Agent
		want   []string
	}{
		"within the link speed": {[]bandwidth.Agent{nicAgent(map[string]bandwidth.Rates{"ens1f0": rate(10_000_000)},
			"ens1f0")}, nil},
		"above the link speed": {[]bandwidth.Agent{nicAgent(map[string]bandwidth.Rates{"ens1f0": rate(10_000_001)},
			"ens1f0")}, []string{"the egress rate of 10000001 kbit/s is above the link speed of 10000000 kbit/s",
			"the ingress rate"}},
		"unknown link speed": {[]bandwidth.Agent{nicAgent(map[string]bandwidth.Rates{"ens1f1": rate(1 << 30)}, "ens1f1")},
			nil},
		"an interface that does not exist": {[]bandwidth.Agent{nicAgent(none, "ens9", "ens9")},
			[]string{`sriov.ini:2: [SRIOV_NIC] physical_device_mappings: element "ens9": interface ens9 does not exist`}},
		"an interface without SR-IOV":       {[]bandwidth.Agent{nicAgent(none, "eno1")}, []string{"not of a PF with SR-IOV"}},
		"a bridge need not be an interface": {[]bandwidth.Agent{bridge}, nil},
		"a bond and its member": {[]bandwidth.Agent{bridge, nicAgent(map[string]bandwidth.Rates{"ens1f1": rate(1)},
			"ens1f1")}, []string{"is a part of the bond bond0"}},
	} {
		got := InterfaceFindings(bandwidthFacts(row.agents...))
		if len(got) != len(row.want) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i, words := range row.want {
			if !strings.Contains(got[i].Sentence, words) || got[i].Wrong != strings.Contains(words, "does not exist") {
				t.Errorf("%s: %+v, want %q", name, got[i], words)
			}
		}
	}
}

// A source that does not read interfaces makes none missing.
func TestInterfacesAreNotMissingWhenTheyWereNotRead(t *testing.T) {
	f := bandwidthFacts(nicAgent(map[string]bandwidth.Rates{"ens9": rate(1)}, "ens9"))
	f.NICsRead = false
	if got := InterfaceFindings(f); len(got) > 0 {
		t.Error(got)
	}
	if got := Bandwidth(f); len(got) != 2 || got[1].Absent != "" {
		t.Error(got)
	}
}
